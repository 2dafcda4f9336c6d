"""A temperature for a trained model."""

import logging
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lmzoo.core.options import Options, Source, configured
from lmzoo.corpus import Corpus
from lmzoo.models.combined.trained import WrapperModel
from lmzoo.protocol.abilities import HasVectors
from lmzoo.protocol.model import State, models
from lmzoo.protocol.perplexity import text_logprobs

log = logging.getLogger(__name__)

WINDOW = 256
"""Tokens whose distributions are in memory at once."""

FITTED = 10_000
"""The number of first tokens of valid to which the temperature is fitted."""

LOW, HIGH, PRECISION = 0.1, 5.0, 0.005
"""The range of temperatures, and how exactly the best one is found."""


class TemperedOptions(Options):
    run: Source | None = None
    """folder of a trained run, whose model is loaded when training starts."""


@models.register("tempered")
class Tempered(WrapperModel):
    """A trained model p_m at another temperature: p(x | h) ∝ p_m(x | h)^(1/T), normalised over all words.

    Guo, Pleiss, Sun & Weinberger, *On calibration of modern neural networks*, ICML 2017, section 4.2. A model that has
    learnt its text by heart is too certain, and better at T > 1. `estimate` fits T to the first tokens of valid.
    """

    estimated_tensors = ("temperature",)

    @configured(TemperedOptions)
    def __init__(self, vocabulary_size: int, options: TemperedOptions):
        super().__init__(vocabulary_size, options.run)
        self.temperature = nn.Buffer(torch.ones(()))
        """T, a tensor of one number; 1 before `estimate`."""

    def estimate(self, corpus: Corpus) -> None:
        text = corpus.truncated(FITTED).splits["valid"]

        def loss(temperature: float) -> float:
            self.temperature.fill_(temperature)
            return -float(text_logprobs(self, text, corpus.context).double().sum())

        self.temperature.fill_(minimum(loss, LOW, HIGH, PRECISION))
        log.info("the temperature is %.3f", self.temperature)

    def initial_state(self, batch_size: int) -> State:
        return self.inner.initial_state(batch_size)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        logprobs, after = self._distributions(tokens, state)
        return self._tempered(logprobs).gather(2, tokens[..., None])[..., 0], after

    def predict(self, state: State) -> Tensor:
        return self._tempered(self.inner.predict(state))

    def begin_step(self, state: State) -> tuple[Tensor, State]:
        logprobs, begun = self.inner.begin_step(state)
        return self._tempered(logprobs), begun

    def end_step(self, tokens: Tensor, begun: State) -> State:
        return self.inner.end_step(tokens, begun)

    def _tempered(self, logprobs: Tensor) -> Tensor:
        """(…, V) log p_m -> (…, V) log p."""
        return (logprobs / self.temperature).log_softmax(-1)

    def _distributions(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The (B, T, V) log p_m of all words at each of (B, T) tokens, and the state after them."""
        model = self.inner
        if isinstance(model, HasVectors):
            vectors, after = model.vectors(tokens, state)
            return model.output.predict(vectors.flatten(0, 1)).view(*tokens.shape, -1), after
        steps = []
        for words in tokens.unbind(1):
            logprobs, begun = model.begin_step(state)
            steps.append(logprobs)
            state = model.end_step(words, begun)
        return torch.stack(steps, 1), state

    @property
    def window_tokens(self) -> int:
        return min(self.inner.window_tokens, WINDOW)


def minimum(function: Callable[[float], float], low: float, high: float, precision: float) -> float:
    """Where a function of one minimum between two numbers has it, by golden-section search (Kiefer 1953)."""
    share = (math.sqrt(5) - 1) / 2
    inner = [high - share * (high - low), low + share * (high - low)]
    values = [*map(function, inner)]
    while high - low > precision:
        if values[0] <= values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - share * (high - low)
            values[0] = function(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + share * (high - low)
            values[1] = function(inner[1])
    return (low + high) / 2
