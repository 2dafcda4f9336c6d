"""Model M, a class-based exponential model."""

import torch
from torch import Tensor

from lmzoo.core.options import Depth, NonNegative, Size
from lmzoo.corpus import Corpus
from lmzoo.models.maxent.exponential import Events, Exponential, require_strengths
from lmzoo.models.maxent.features import Template, attributes, contexts, ngram_templates, parse_templates
from lmzoo.protocol.bases import WindowModel
from lmzoo.protocol.model import models
from lmzoo.words.brown import cached_brown_clusters

CLASS: Template = (0,)
"""Every feature of the word looks at the word's own class, c0."""


@models.register("model_m")
class ModelM(WindowModel):
    """p(w | h) = p(c | h) p(w | h, c), where c is the class of w. Both factors are exponential and exactly normalised.

    Chen, *Shrinking exponential language models*, NAACL 2009. The features of the class are the n-grams of c after
    words and of c after classes. The features of the word are the n-grams of w after words. The classes are Brown
    clusters (Brown et al. 1992). Contexts list few outcomes here, so further features, such as skips (Rosenfeld 1996),
    cost little.

    Args:
        order: N; a word is predicted from the N - 1 words before it.
        classes: the number of classes, which are Brown clusters.
        class_templates: features of the class beside n-grams of classes and of words, as `lmzoo.models.maxent.features`
            names them, such as [w2, "c1 c3", "c1 w2"].
        word_templates: features of the word beside the n-grams of words.
        class_l2, class_l1: strengths of the penalties of the features of the class, as in `LogLinear`: for unigrams,
            for bigrams …, the last for all longer ones.
        word_l2, word_l1: likewise of the features of the word.
        tolerance: training ends when an iteration lowers the objective by less than this share of it.
        max_iterations: training ends after this number of iterations at the latest.
    """

    random = False
    word_class: Tensor

    def __init__(
        self,
        *,
        vocabulary_size: int,
        order: Depth,
        classes: Size,
        class_templates: list[str],
        word_templates: list[str],
        class_l2: list[NonNegative],
        class_l1: list[NonNegative],
        word_l2: list[NonNegative],
        word_l1: list[NonNegative],
        tolerance: NonNegative,
        max_iterations: Size,
    ):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.order = order
        self.classes = classes
        self.search = {"tolerance": tolerance, "max_iterations": max_iterations}
        require_strengths(class_l2=class_l2, class_l1=class_l1, word_l2=word_l2, word_l1=word_l1)
        self.register_buffer("word_class", torch.tensor([word % classes for word in range(vocabulary_size)]))
        of_class = [*ngram_templates("cw", order), *parse_templates(class_templates, order, "model.class_templates")]
        of_word = [*ngram_templates("w", order), *parse_templates(word_templates, order, "model.word_templates")]
        self.class_model = Exponential(
            self._possible_classes(),
            size=vocabulary_size + 1,
            templates=[(), *of_class],
            l2=class_l2,
            l1=class_l1,
            trainable=False,
        )
        self.word_model = Exponential(
            self._possible_words(),
            size=vocabulary_size + 1,
            templates=[CLASS, *(CLASS + template for template in of_word)],
            l2=word_l2,
            l1=word_l1,
            trainable=False,
        )

    def _attributes(self, context: Tensor, outcome_class: Tensor | None = None) -> Tensor:
        return attributes(context, self.vocabulary_size, self.word_class, outcome_class)

    def _possible_classes(self) -> Events:
        classes = torch.arange(self.classes, device=self.device)
        return classes.new_full((self.classes, 2 * self.order), self.vocabulary_size), classes

    def _possible_words(self) -> Events:
        words = torch.arange(self.vocabulary_size, device=self.device)
        x = words.new_full((self.vocabulary_size, 2 * self.order), self.vocabulary_size)
        x[:, 0] = self.word_class
        return x, words

    def estimate(self, corpus: Corpus) -> None:
        tokens = corpus.splits["train"].to(self.device, torch.int64)
        self.word_class = cached_brown_clusters(tokens, self.vocabulary_size, self.classes, "model.classes")
        context, c = contexts(tokens, self.order), self.word_class[tokens]
        self.class_model.fit((self._attributes(context), c), self._possible_classes(), **self.search)
        self.word_model.fit((self._attributes(context, c), tokens), self._possible_words(), **self.search)

    def token_logprobs(self, context: Tensor, tokens: Tensor) -> Tensor:
        c = self.word_class[tokens]
        return self.class_model(self._attributes(context), c) + self.word_model(self._attributes(context, c), tokens)

    def next_logprobs(self, context: Tensor) -> Tensor:
        every = torch.arange(self.classes, device=context.device).repeat(len(context))  # (N · classes,)
        words = self._attributes(context.repeat_interleave(self.classes, 0), every)
        of_class = self.class_model.predict(self._attributes(context))  # (N, classes)
        return of_class[:, self.word_class] + self.word_model.predict(words, share=self.classes)
