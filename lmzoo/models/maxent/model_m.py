"""Model M, a class-based exponential model."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lmzoo.core.options import Depth, NonNegative, Options, Size, configured
from lmzoo.corpus import Corpus
from lmzoo.models.maxent.exponential import Events, Exponential, require_strengths
from lmzoo.models.maxent.features import Template, attributes, contexts, parse_templates, possible
from lmzoo.protocol.model import models
from lmzoo.protocol.window_model import WindowModel
from lmzoo.words.brown import cached_brown_clusters

CLASS: Template = (0,)
"""Every feature of the word looks at the word's own class, c0."""


class ModelMOptions(Options):
    order: Depth = 4
    """N; a word is predicted from the N - 1 words before it."""
    classes: Size = 100
    """number of classes, which are Brown clusters."""
    class_templates: Sequence[str] = ()
    """features of the class besides n-grams of classes and of words, in the notation of `lmzoo.models.maxent.features`,
    such as [w2, "c1 c3", "c1 w2"]."""
    word_templates: Sequence[str] = ()
    """features of the word besides the n-grams of words."""
    class_l2: Sequence[NonNegative] = (0.01, 0.3, 0.5, 0.7)
    """l2 of the features of the class, as in `LogLinear`: for unigrams, bigrams …, the last for all longer ones."""
    class_l1: Sequence[NonNegative] = (0.0, 0.5)
    """l1 of the features of the class, as in `LogLinear`: for unigrams, bigrams …, the last for all longer ones."""
    word_l2: Sequence[NonNegative] = (0.01, 0.12, 0.2, 0.3)
    """l2 of the features of the word, likewise."""
    word_l1: Sequence[NonNegative] = (0.0, 0.4)
    """l1 of the features of the word, likewise."""
    tolerance: NonNegative = 3e-6
    """training stops when an iteration reduces the objective by less than this fraction."""
    max_iterations: Size = 300
    """maximum number of iterations."""


@models.register("model_m")
class ModelM(WindowModel):
    """p(w | h) = p(c | h) p(w | h, c), where c is the class of w. Both factors are exponential and exactly normalised.

    Chen, *Shrinking exponential language models*, NAACL 2009. The features of the class are the n-grams of c after
    words and of c after classes. The features of the word are the n-grams of w after words. The classes are Brown
    clusters (Brown et al. 1992). Contexts list few outcomes here, so further features, such as skips (Rosenfeld 1996),
    cost little.
    """

    takes_steps = False
    forgets_at_eos = True

    @configured(ModelMOptions)
    def __init__(self, vocabulary_size: int, options: ModelMOptions):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.order = options.order
        self.classes = options.classes
        self.search = {"tolerance": options.tolerance, "max_iterations": options.max_iterations}
        require_strengths(
            class_l2=options.class_l2, class_l1=options.class_l1, word_l2=options.word_l2, word_l1=options.word_l1
        )
        self.word_class = nn.Buffer(torch.arange(vocabulary_size) % options.classes)
        of_class = parse_templates("cw", options.order, options.class_templates, "model.class_templates")
        of_word = parse_templates("w", options.order, options.word_templates, "model.word_templates")
        self.class_model = Exponential(
            self._possible_classes(),
            size=vocabulary_size + 1,
            templates=[(), *of_class],
            l2=options.class_l2,
            l1=options.class_l1,
            trainable=False,
        )
        self.word_model = Exponential(
            self._possible_words(),
            size=vocabulary_size + 1,
            templates=[CLASS, *(CLASS + template for template in of_word)],
            l2=options.word_l2,
            l1=options.word_l1,
            trainable=False,
        )

    def _attributes(self, context: Tensor, outcome_class: Tensor | None = None) -> Tensor:
        return attributes(context, self.vocabulary_size, self.word_class, outcome_class)

    def _possible_classes(self) -> Events:
        return possible(torch.arange(self.classes, device=self.device), self.order, self.vocabulary_size)

    def _possible_words(self) -> Events:
        words = torch.arange(self.vocabulary_size, device=self.device)
        return possible(words, self.order, self.vocabulary_size, self.word_class)

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
