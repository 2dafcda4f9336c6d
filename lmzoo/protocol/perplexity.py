"""The one measure."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus import Context
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.corpus.windows import SentenceWindows, StreamWindows
from lmzoo.protocol.condition import beginning, shares
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
def text_logprobs(model: LanguageModel, tokens: Tensor, context: Context, conditions: Tensor | None = None) -> Tensor:
    """(N,) log p of every token of a (N,) text whose lines are closed by `<eos>`, in nats, where the model is.

    ``stream`` reads the text as one row, and the state is carried from the first token to the last. ``sentence`` reads
    each line from `initial_state`. Afterwards the model has the mode (training or evaluation) it had before.

    Args:
        conditions: (L,) those of the L lines. Without them, a model that has conditions gives log p(x_t | x_<t) with
            p(x) = Σ_c p(c) p(x | c) for each line, which takes a pass for each c.

    Raises: UserError for a model that has conditions, where a stream is asked for. ValueError for a text without tokens
        and, where sentences are read, one that does not end with `<eos>`.
    """
    if not len(tokens):
        raise ValueError("there is no token to score")
    if context == "sentence" and tokens[-1] != EOS_ID:
        raise ValueError("the last sentence of the text is not closed by <eos>")
    p = shares(model)
    if p is not None and context == "stream":
        raise UserError("the model reads each line by itself, given its label", "leave out the context stream")
    if p is not None and conditions is None:
        return _whatever_the_condition(model, tokens, p)
    if context == "stream" or model.forgets_at_eos:
        windows = StreamWindows(tokens, batch_size=1, bptt=model.window_tokens)
    else:
        windows = SentenceWindows(tokens, max_tokens=model.window_tokens, seed=None, conditions=conditions)
    state, found = (), torch.empty(0)
    with evaluating(model):
        for window in windows.epoch(0):
            if window.starts:
                state = beginning(model, len(window.tokens), window.conditions)
            logprobs, state = model(window.tokens.to(model.device), state)
            if not len(found):
                found = logprobs.new_empty(len(tokens))
            found.index_copy_(0, window.unpadded(window.positions).to(model.device), window.unpadded(logprobs))
    return found


def _whatever_the_condition(model: LanguageModel, tokens: Tensor, p: Tensor) -> Tensor:
    """(N,) log Σ_c p(c) p(x_1 … x_t | c) − log Σ_c p(c) p(x_1 … x_{t-1} | c) in lines that begin with x_1; p (K,)."""
    ends = tokens == EOS_ID
    line = ends.cumsum(0) - ends.long()  # (N,) the number of each token's line
    until = before = torch.full((len(tokens),), -math.inf, dtype=torch.float64)  # the two logarithms
    for condition, log_share in enumerate(p.cpu().double().log().tolist()):
        given = torch.full((int(ends.sum()),), condition)
        logprobs = text_logprobs(model, tokens, "sentence", given).cpu().double()
        sums = logprobs.cumsum(0)
        sums -= torch.cat([sums.new_zeros(1), sums[ends]])[line]
        until = until.logaddexp(log_share + sums)
        before = before.logaddexp(log_share + sums - logprobs)
    return until - before


def by_line(values: Tensor, tokens: Tensor) -> list[Tensor]:
    """(N, …) numbers of the tokens of a text -> (n, …) those of each line, its `<eos>` included."""
    return list(values.tensor_split((tokens == EOS_ID).nonzero()[:, 0] + 1)[:-1])


def score(model: LanguageModel, tokens: Tensor, context: Context, conditions: Tensor | None = None) -> Score:
    """Score a text, read as `text_logprobs` does: every token counts."""
    return Score.of(text_logprobs(model, tokens, context, conditions))
