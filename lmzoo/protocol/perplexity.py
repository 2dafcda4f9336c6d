"""The one measure."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.corpus import Context
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.corpus.windows import SentenceWindows, StreamWindows
from lmzoo.protocol.model import LanguageModel, evaluating

ROUNDED = 0.01
"""A log-probability that is not above 0 but for rounding is below this."""


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

    @classmethod
    def of(cls, logprobs: Tensor) -> "Score":
        """From the (N,) log-probabilities of a text's tokens."""
        return cls(float(logprobs.cpu().double().sum()), len(logprobs), int(torch.isneginf(logprobs).sum()))

    @property
    def perplexity(self) -> float:
        """exp(-logprob / N); infinite where a token was impossible."""
        try:
            return math.exp(-self.logprob / self.tokens)
        except OverflowError:
            return math.inf


def fault(logprobs: Tensor) -> str | None:
    """What shows that the (N,) log-probabilities of a text are none."""
    if bool(logprobs.isnan().any()):
        return "the model's log-probabilities are no numbers"
    if (highest := float(logprobs.max())) > ROUNDED:
        return f"the model gives a word the probability {math.exp(min(highest, 700)):.4g}"
    return None


@torch.no_grad()
def text_logprobs(model: LanguageModel, tokens: Tensor, context: Context) -> Tensor:
    """(N,) log p of every token of a (N,) text whose lines are closed by `<eos>`, in nats, where the model is.

    ``stream`` reads the text as one row, and the state is carried from the first token to the last. ``sentence`` reads
    each line from `initial_state`. Afterwards the model has the mode (training or evaluation) it had before.

    Raises: ValueError for a text without tokens and, where sentences are read, one that does not end with `<eos>`.
    """
    if not len(tokens):
        raise ValueError("there is no token to score")
    if context == "sentence" and tokens[-1] != EOS_ID:
        raise ValueError("the last sentence of the text is not closed by <eos>")
    if context == "stream" or model.forgets_at_eos:
        windows = StreamWindows(tokens, batch_size=1, bptt=model.window_tokens)
    else:
        windows = SentenceWindows(tokens, max_tokens=model.window_tokens, seed=None)
    state, found = (), torch.empty(0)
    with evaluating(model):
        for window in windows.epoch(0):
            if window.starts:
                state = model.initial_state(len(window.tokens))
            logprobs, state = model(window.tokens.to(model.device), state)
            if not len(found):
                found = logprobs.new_empty(len(tokens))
            found.index_copy_(0, window.unpadded(window.positions).to(model.device), window.unpadded(logprobs))
    return found


def by_line(values: Tensor, tokens: Tensor) -> list[Tensor]:
    """(N, …) numbers of the tokens of a text -> (n, …) those of each line, its `<eos>` included."""
    return list(values.tensor_split((tokens == EOS_ID).nonzero()[:, 0] + 1)[:-1])


def score(model: LanguageModel, tokens: Tensor, context: Context) -> Score:
    """Score a text, read as `text_logprobs` does: every token counts."""
    return Score.of(text_logprobs(model, tokens, context))
