"""The log-linear, or maximum-entropy, n-gram model."""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.options import Depth, Idle, NonNegative, Options, Size, configured
from lmzoo.corpus import Corpus
from lmzoo.models.maxent.exponential import Events, Exponential, require_strengths
from lmzoo.models.maxent.features import attributes, contexts, parse_templates, possible
from lmzoo.protocol.model import models
from lmzoo.protocol.window_model import WindowModel
from lmzoo.words.brown import cached_brown_clusters


class LogLinearOptions(Options):
    order: Depth = 5
    """N; a word is predicted from the N - 1 words before it."""
    templates: Sequence[str] = ()
    """features besides the n-grams, in the notation of `lmzoo.models.maxent.features`, such as [w2, "c1 c2"]: the last
    word but one, and the classes of the last two."""
    classes: Annotated[Size | None, Idle(("model.templates", []))] = None
    """number of classes c for templates, which are Brown clusters. None: no classes."""
    training: Literal["lbfgs", "minibatch"] = "lbfgs"
    """lbfgs, full-batch; or minibatch, gradient descent by the trainer, which has the same optimum."""
    l2: Sequence[NonNegative] = (0.01, 0.12, 0.2, 0.3, 0.4)
    """coefficients of the penalty Σ l2/2 λ², in nats of the whole text, for unigrams, bigrams …, by the number of words
    and classes in a feature. The last also applies to all longer ones."""
    l1: Sequence[NonNegative] = (0.0, 0.3, 0.45, 0.6, 0.7)
    """likewise of Σ l1 |λ|. With lbfgs, it makes weights exactly zero, whose number is logged."""
    tolerance: Annotated[NonNegative, Idle(("model.training", "minibatch"))] = 3e-6
    """lbfgs stops when an iteration reduces the objective by less than this fraction."""
    max_iterations: Annotated[Size, Idle(("model.training", "minibatch"))] = 300
    """maximum number of iterations of lbfgs."""


@models.register("loglinear")
class LogLinear(WindowModel):
    """p(w | h) ∝ exp Σ λ over the n-grams of the training text that end hw, exactly normalised.

    Rosenfeld, *A maximum entropy approach to adaptive statistical language modelling*, 1996. The weights
    maximise log-likelihood - Σ (l2/2 λ² + l1 |λ|), in nats of the whole text. The penalties are a Gaussian prior of
    variance 1/l2 (Chen & Rosenfeld, 2000) and a Laplacian prior. Chen (2009) takes l1 = 1/2, l2 = 1/6.
    """

    takes_steps = "training", "minibatch"
    forgets_at_eos = True

    @configured(LogLinearOptions)
    def __init__(self, vocabulary_size: int, options: LogLinearOptions):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.order = options.order
        self.gradual = options.training == "minibatch"
        self.search = {"tolerance": options.tolerance, "max_iterations": options.max_iterations}
        require_strengths(l2=options.l2, l1=options.l1)
        templates = parse_templates("w", options.order, options.templates, "model.templates")
        of_classes = any(column % 2 == 0 for template in templates for column in template)
        self.classes = options.classes if of_classes else None
        if of_classes and options.classes is None:
            raise UserError(
                f"model.templates={[*options.templates]}: they name classes (c), so model.classes must be a number"
            )
        if options.templates and not of_classes and options.classes is not None:
            raise UserError(f"model.classes={options.classes}: no template names a class (c)", "leave it out")
        self.word_class = nn.Buffer(torch.zeros(vocabulary_size, dtype=torch.int64))
        self.exponential = Exponential(
            self._unigrams(),
            size=vocabulary_size + 1,
            templates=[(), *templates],
            l2=options.l2,
            l1=options.l1,
            trainable=self.gradual,
        )

    def _attributes(self, context: Tensor) -> Tensor:
        return attributes(context, self.vocabulary_size, self.word_class if self.classes else None)

    def _unigrams(self) -> Events:
        """Every word after an empty history, so that a word that the text lacks is possible."""
        return possible(torch.arange(self.vocabulary_size, device=self.device), self.order, self.vocabulary_size)

    def estimate(self, corpus: Corpus) -> None:
        tokens = corpus.splits["train"].to(self.device, torch.int64)
        if self.classes:
            self.word_class = cached_brown_clusters(tokens, self.vocabulary_size, self.classes, "model.classes")
        events = self._attributes(contexts(tokens, self.order)), tokens
        if self.gradual:
            self.exponential.collect(events, self._unigrams())
        else:
            self.exponential.fit(events, self._unigrams(), **self.search)

    def penalty(self) -> Tensor | float:
        return self.exponential.penalty() if self.gradual else 0.0

    def token_logprobs(self, context: Tensor, tokens: Tensor) -> Tensor:
        return self.exponential(self._attributes(context), tokens)

    def next_logprobs(self, context: Tensor) -> Tensor:
        return self.exponential.predict(self._attributes(context))
