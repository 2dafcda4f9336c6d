"""Perplexity, the measure of all models."""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lmzoo.core import ranks
from lmzoo.core.errors import UserError, one_line
from lmzoo.core.progress import tracked
from lmzoo.corpus import Context
from lmzoo.corpus.lines import line_numbers
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.corpus.windows import SentenceWindows, StreamWindows, Window
from lmzoo.numerics.gpu_sync import to_device_async
from lmzoo.protocol.condition import initial_state, shares
from lmzoo.protocol.model import LanguageModel, State, evaluating

ROUNDED = 0.01
"""The tolerance for log-probabilities above 0 due to rounding, in nats."""

BLOCK = 2**20
"""The number of log-probabilities of a text summed at once."""

SENTENCES = 2**18
"""The number of tokens of a text in parts that are read before sentences are grouped by length."""


def perplexity(logprob: float, tokens: int) -> float:
    """exp(-logprob / N) for log p in nats; infinite if a token is impossible or on overflow."""
    try:
        return math.exp(-logprob / tokens)
    except OverflowError:
        return math.inf


class Score:
    """The score of a text, from log-probabilities added in pieces of any size.

    Attributes:
        tokens: the number N of tokens, `<eos>` included.
        impossible: the number of tokens with probability zero.
    """

    def __init__(self, logprobs: Tensor | None = None):
        self.tokens = self.impossible = 0
        self._sum, self._rest = 0.0, torch.empty(0, dtype=torch.float64)  # summed in blocks of `BLOCK`
        if logprobs is not None:
            self.add(logprobs)

    def add(self, logprobs: Tensor) -> None:
        """Add the (N,) log-probabilities of further tokens."""
        self.tokens += len(logprobs)
        self.impossible += int(torch.isneginf(logprobs).sum())
        self._rest = torch.cat([self._rest, logprobs.cpu().double()])
        while len(self._rest) > BLOCK:
            self._sum += float(self._rest[:BLOCK].sum())
            self._rest = self._rest[BLOCK:]

    @property
    def logprob(self) -> float:
        """Σ log p in nats over all tokens, summed in float64."""
        return self._sum + float(self._rest.sum())

    @property
    def perplexity(self) -> float:
        """The perplexity of the text."""
        return perplexity(self.logprob, self.tokens)


def logprob_error(logprobs: Tensor) -> str | None:
    """The error in (N,) log-probabilities, if any."""
    if math.isnan(highest := float(logprobs.max())):  # as it is if any one is
        return "the model's log-probabilities are not numbers"
    if highest > ROUNDED:
        return f"the model gives a word the probability {math.exp(min(highest, 700)):.4g}"
    return None


def validated(logprobs: Tensor, where: object) -> Tensor:
    """Return valid (N,) log-probabilities; else raise a UserError prefixed by ``where`` unless that is empty."""
    if problem := logprob_error(logprobs):
        raise UserError(f"{where}: {problem}" if where else problem, "train the model again")
    return logprobs


@torch.no_grad()
def check_saved(model: LanguageModel, other: LanguageModel, tokens: Tensor, atol: float) -> None:
    """Raise a UserError if a new model cannot load the state_dict of one, or gives (B, T) tokens another log p then."""
    advice = "register all that estimate sets as a parameter, or as a buffer that has its shape from the beginning"
    try:
        other.to(model.device).eval().load_state_dict(model.state_dict())
    except RuntimeError as error:
        raise UserError(f"cannot load its state_dict ({one_line(error)})", advice) from None
    found, expected = (each(tokens, each.initial_state(len(tokens)))[0] for each in (other, model))
    if not torch.allclose(found, expected, atol=atol, rtol=0):
        raise UserError("loaded from its state_dict, it gives other probabilities", advice)


def largest_difference(a: Tensor, b: Tensor) -> float:
    """The largest |a - b|; that of equal infinite values is 0."""
    return float((a - b).abs().masked_fill(a == b, 0).max())


@torch.no_grad()
def check_predictions(model: LanguageModel, tokens: Tensor, atol: float) -> None:
    """Raise a UserError for predictions of (B, T) tokens that break the protocol; `whole_sentences` has none.

    `predict` must give distributions over V, and in them each token the log p of `forward`, up to ``atol`` nats.
    """
    state, shape = model.initial_state(len(tokens)), (len(tokens), model.vocabulary_size)
    scores = model(tokens, state)[0]
    advice = "compute both from the same state, and let no token help to predict itself or an earlier one"
    for word, score in zip(tokens.split(1, 1), scores.split(1, 1), strict=True):
        logprobs = model.predict(state)
        if logprobs.shape != shape:
            raise UserError(f"predict returns shape {tuple(logprobs.shape)}, not {shape}, for {len(tokens)} rows")
        sums = logprobs.cpu().double().exp().sum(1)
        if not torch.allclose(sums, torch.ones_like(sums), atol=atol / 10, rtol=0):
            worst = float(sums[(sums - 1).abs().argmax()])
            raise UserError(f"probabilities sum to {worst:.6g}", "normalise over words, such as by log_softmax")
        if not torch.allclose(score, own := logprobs.gather(1, word), atol=atol, rtol=0):
            most = largest_difference(score, own)
            raise UserError(f"predict and forward differ by up to {most:.3g} nats", advice)
        state = model(word, state)[1]


@torch.no_grad()
def part_logprobs(model: LanguageModel, parts: Iterable[Tensor], context: Context) -> Iterator[Tensor]:
    """`text_logprobs` of a text in parts of any size: (n,) log p of each part of n tokens, in order.

    The scores of a part may follow only after later parts are read: windows of a stream do not depend on the parts, and
    sentences are scored together once there are `SENTENCES` tokens. So memory grows with the longest sentence, not with
    the text. For longer texts, sentences are grouped differently than in one part.
    """
    stream = context == "stream" or model.forgets_at_eos
    rest, logprobs = torch.empty(0, dtype=torch.int64), torch.empty(0)
    waiting: deque[int] = deque()
    with evaluating(model):
        state, tokens = model.initial_state(1), 0
        for part in chain(parts, [None]):
            if part is not None:
                waiting.append(len(part))
                rest, tokens = torch.cat([rest, part.cpu()]), tokens + len(part)
            if ready := _ready(rest, model.window_tokens if stream else None, part is None):
                if stream:
                    more, state = _score_stream(model, rest[:ready], state)
                else:
                    more = _score_sentences(model, rest[:ready])
                logprobs, rest = torch.cat([logprobs.to(more), more]), rest[ready:]
            while waiting and waiting[0] <= len(logprobs):
                yield logprobs[: waiting[0]]
                logprobs = logprobs[waiting.popleft() :]
    if not tokens:
        raise ValueError("there is no token to score")


def _ready(tokens: Tensor, window: int | None, last: bool) -> int:
    """The number of (N,) tokens to score now: whole windows of a stream or sentences, all if they are the last."""
    if last:
        if window is None and len(tokens) and tokens[-1] != EOS_ID:
            raise ValueError("the last sentence of the text is not closed by <eos>")
        return len(tokens)
    if window is not None:
        return len(tokens) // window * window
    ends = (tokens == EOS_ID).nonzero() if len(tokens) >= SENTENCES else tokens[:0]
    return int(ends[-1]) + 1 if len(ends) else 0


def _shown(windows: StreamWindows | SentenceWindows) -> Iterator[Window]:
    """The windows of a text, with a progress bar after two seconds."""
    return tracked(windows.epoch(0), len(windows), "window", "scoring", delay=2)


def _score_stream(model: LanguageModel, tokens: Tensor, state: State) -> tuple[Tensor, State]:
    """(N,) log p of a stream after a state, and the final state."""
    logprobs = []
    for window in _shown(StreamWindows(tokens, batch_size=1, bptt=model.window_tokens)):
        part, state = model(to_device_async(window.tokens, model.device), state)
        logprobs.append(part[0])
    return torch.cat(logprobs), state


def _score_sentences(model: LanguageModel, tokens: Tensor, conditions: Tensor | None = None) -> Tensor:
    """(N,) log p of sentences, distributed over the ranks."""
    windows = SentenceWindows(tokens, max_tokens=model.window_tokens, seed=None, conditions=conditions)
    logprobs = torch.empty(0)
    for window in islice(_shown(windows), ranks.rank(), None, ranks.world_size()):
        state = initial_state(model, len(window.tokens), window.conditions)
        part, _ = model(to_device_async(window.tokens, model.device), state)
        if not len(logprobs):
            logprobs = part.new_zeros(len(tokens))
        logprobs.index_copy_(0, to_device_async(window.unpadded(window.positions), model.device), window.unpadded(part))
    if ranks.world_size() > 1:
        own = logprobs.double() if len(logprobs) else torch.zeros(len(tokens)).double().to(model.device)
        logprobs = ranks.all_reduce(own)
    return logprobs


@torch.no_grad()
def row_logprobs(model: LanguageModel, rows: Sequence[Tensor]) -> list[Tensor]:
    """log p in nats of every token of (n,) rows, (n,) float64 each on the CPU, each row from `initial_state`.

    Unlike a line, a row may have `<eos>` inside. A conditional model is not supported.
    """
    order = sorted(range(len(rows)), key=lambda number: -len(rows[number]))
    found: dict[int, Tensor] = {}
    with evaluating(model):
        while order:
            longest = len(rows[order[0]])
            batch, order = order[: (most := max(1, model.window_tokens // longest))], order[most:]
            texts, state = [rows[number] for number in batch], model.initial_state(len(batch))
            tokens = pad_sequence(texts, batch_first=True, padding_value=EOS_ID) if len(texts) > 1 else texts[0][None]
            logprobs, _ = model(tokens.to(state[0].device if state else model.device), state)
            found |= zip(batch, logprobs.cpu().double().unbind(), strict=True)
    return [found[number][: len(row)] for number, row in enumerate(rows)]


@torch.no_grad()
def text_logprobs(model: LanguageModel, tokens: Tensor, context: Context, conditions: Tensor | None = None) -> Tensor:
    """(N,) log p in nats of every token of a (N,) text of lines terminated by `<eos>`, on the model's device.

    ``stream`` reads the text as one row and carries the state throughout; ``sentence`` reads each line from
    `initial_state`. The model's mode (training or evaluation) is restored afterwards.

    Args:
        conditions: (L,) conditions of the L lines. Without them, a conditional model gives log p(x_t | x_<t) with
            p(x) = Σ_c p(c) p(x | c) for each line, in one pass per c.

    Raises: UserError if a conditional model is to read a stream. ValueError if a text has no tokens or, when read by
        sentence, does not end with `<eos>`.
    """
    p = shares(model)
    if p is not None and context == "stream":
        raise UserError("the model reads each line by itself, given its label", "leave out the context stream")
    if conditions is None and p is not None:
        return _marginal_logprobs(model, tokens, p)
    if conditions is None:
        return torch.cat(list(part_logprobs(model, [tokens], context)))
    _ready(tokens, None, last=True)
    with evaluating(model):
        return _score_sentences(model, tokens, conditions)


def _marginal_logprobs(model: LanguageModel, tokens: Tensor, p: Tensor) -> Tensor:
    """(N,) log Σ_c p(c) p(x_1 … x_t | c) − log Σ_c p(c) p(x_1 … x_{t-1} | c) in lines that begin with x_1; p (K,)."""
    ends = tokens == EOS_ID
    line = line_numbers(tokens)
    until = before = torch.full((len(tokens),), -math.inf, dtype=torch.float64)  # the two logarithms
    for condition, log_share in enumerate(p.cpu().double().log().tolist()):
        conditions = torch.full((int(ends.sum()),), condition)
        logprobs = text_logprobs(model, tokens, "sentence", conditions).cpu().double()
        sums = logprobs.cumsum(0)
        sums -= torch.cat([sums.new_zeros(1), sums[ends]])[line]
        until = until.logaddexp(log_share + sums)
        before = before.logaddexp(log_share + sums - logprobs)
    return until - before


def score(model: LanguageModel, tokens: Tensor, context: Context, conditions: Tensor | None = None) -> Score:
    """Score a text as `text_logprobs` does; every token counts."""
    return Score(text_logprobs(model, tokens, context, conditions))
