"""The one measure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.corpus import Context
from lmzoo.corpus.windows import SentenceWindows, StreamWindows
from lmzoo.models.base import LanguageModel, evaluating

WINDOW_TOKENS = 2048
"""How many tokens are scored at once; no model's score depends on it."""


@dataclass(frozen=True)
class Score:
    """How well a model predicts a text.

    Attributes:
        logprob: Σ log p in nats over every token, `<eos>` included, summed in float64.
        tokens: their number N.
        impossible: how many of them had probability zero.
    """

    logprob: float
    tokens: int
    impossible: int

    @property
    def perplexity(self) -> float:
        """exp(-logprob / N); infinite where a token was impossible."""
        try:
            return math.exp(-self.logprob / self.tokens)
        except OverflowError:
            return math.inf


@torch.no_grad()
def scored_tokens(model: LanguageModel, tokens: Tensor, context: Context) -> Iterator[tuple[Tensor, Tensor]]:
    """The tokens of a text, some at a time in an order that depends on the text alone, and their log-probabilities.

    ``stream`` reads a (N,) text whose lines are closed by `<eos>` as one row, memory carried from the first token to
    the last; ``sentence`` reads each line from `initial_state`, whole lines one after the other. Every token is there
    once, in (n,) pieces. The model is left in the mode it was in.
    """
    if context == "stream":
        windows = StreamWindows(tokens, batch_size=1, bptt=WINDOW_TOKENS)
    else:
        windows = SentenceWindows(tokens, max_tokens=WINDOW_TOKENS, seed=None)
    state = ()
    with evaluating(model):
        for window in windows.epoch(0):
            if window.starts:
                state = model.initial_state(len(window.tokens))
            logprobs, state = model(window.tokens.to(model.device), state)
            if window.mask is None:
                yield window.tokens.flatten(), logprobs.flatten()
            else:
                yield window.tokens[window.mask], logprobs[window.mask.to(model.device)]


def score(model: LanguageModel, tokens: Tensor, context: Context) -> Score:
    """Score a text, read as `scored_tokens` does: every token counts, and no row starts cold."""
    device = model.device
    total = torch.zeros((), dtype=torch.float64, device=device if device.type != "mps" else "cpu")
    impossible = 0
    for _, logprobs in scored_tokens(model, tokens, context):
        total += logprobs.to(total.device).double().sum()
        impossible += int(torch.isneginf(logprobs).sum())
    return Score(float(total), len(tokens), impossible)
