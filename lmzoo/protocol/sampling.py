"""Sampling from language models, and search for likely sentences."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.options import LongSeed, Size, require
from lmzoo.core.progress import Bar
from lmzoo.corpus import EOS_ID, Context
from lmzoo.protocol.abilities import Draws
from lmzoo.protocol.condition import initial_state, shares
from lmzoo.protocol.model import LanguageModel, State, evaluating, where_rows
from lmzoo.protocol.perplexity import validated
from lmzoo.protocol.reader import Reader


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Modifications of the distribution from which words are sampled; none by default.

    The temperature is applied first, then each truncation in this order; ``top_k=1`` is greedy.

    Attributes:
        temperature: τ; p is replaced by p(x)^(1/τ) / Σ p^(1/τ).
        top_k: only the k likeliest words (Fan et al. 2018).
        top_p: the smallest set of likeliest words with this total probability (Holtzman et al. 2020).

    Raises: UserError if a value is invalid.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0

    def __post_init__(self) -> None:
        require(Size | None, top_k=self.top_k)
        for name in ("temperature", "top_p"):
            if not isinstance(value := getattr(self, name), Real):
                raise UserError(f"{name}={value!r}: must be a number")
        if not 0 < self.temperature < math.inf:
            advice = None if self.temperature else "top_k=1 chooses the most likely word"
            raise UserError(f"temperature={self.temperature}: must be positive and finite", advice)
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p={self.top_p}: must be above 0 and at most 1")

    def weights(self, logprobs: Tensor) -> Tensor:
        """(B, V) log-probabilities in nats -> (B, V) unnormalized sampling probabilities; float64 if modified."""
        if self == Decoding():
            return (logprobs - logprobs.amax(1, keepdim=True)).exp()
        logprobs = logprobs.double()
        p = ((logprobs - logprobs.amax(1, keepdim=True)) / self.temperature).exp()
        if self.top_k is not None and self.top_k < p.shape[1]:
            likeliest = p.topk(self.top_k, dim=1)
            p = torch.zeros_like(p).scatter(1, likeliest.indices, likeliest.values)
        if self.top_p < 1:
            p = _nucleus(p, self.top_p)
        return p


def _nucleus(p: Tensor, mass: float) -> Tensor:
    """Truncate (B, V) weights p to the fewest words with the share ``mass`` of the total."""
    enough = mass * p.sum(1, keepdim=True)
    for most in (min(512, p.shape[1]), p.shape[1]):  # few words have most of the mass, so sorting all is rare
        ordered, first = p.topk(most, dim=1)
        total = ordered.cumsum(1)
        if bool((total[:, -1:] >= enough).all()):
            break
    return torch.zeros_like(p).scatter(1, first, ordered.where(total - ordered < enough, 0))


class Texts(NamedTuple):
    """S texts of N tokens, or of fewer if a number of sentences was requested."""

    tokens: Tensor
    """(S, N) int64 word indices."""
    logprobs: Tensor
    """(S, N) log-probabilities in nats under the unmodified model; float64."""
    conditions: Tensor | None
    """(S,) the condition of each text; None for models without conditions."""
    sentences: int | None
    """The number of sentences of each text; None if N was given. Tokens after them are not part of the text."""

    def each(self) -> list[tuple[Tensor, Tensor]]:
        """The (n,) tokens of each text, and their (n,) log-probabilities."""
        ends = len(self.tokens) * [self.tokens.shape[1]]
        if self.sentences is not None:
            ends = [int((text == EOS_ID).nonzero()[self.sentences - 1]) + 1 for text in self.tokens]
        return [(text[:n], scores[:n]) for text, scores, n in zip(self.tokens, self.logprobs, ends, strict=True)]


@torch.no_grad()
def sample(
    model: LanguageModel,
    tokens: int | None,
    seed: int,
    *,
    context: Context,
    decoding: Decoding | None = None,
    prompt: Tensor | None = None,
    samples: int = 1,
    condition: int | None = None,
    sentences: int | None = None,
    allowed: Tensor | None = None,
) -> Texts:
    """Sample texts in a batch, each starting at a sentence boundary.

    The model's mode (training or evaluation) is restored afterwards.

    Args:
        tokens: the length of a text; None if ``sentences`` determines it.
        seed: the seed of the first text, increased by one for each further text, so that each is reproducible.
        context: with ``sentence`` the state is reset at each `<eos>`.
        decoding: modifications of the distribution; None: none.
        prompt: (P,) words at the beginning of each text, P at least 1; they are not part of the result.
        condition: the condition of all texts. Without it, a conditional model draws one for each text from p(c), or
            p(c | prompt).
        sentences: the number of sentences of a text, including the one begun by the prompt.
        allowed: (V,) bool, the words that may be drawn, including `<eos>`; their probabilities are renormalized. None:
            all.

    Raises: UserError unless numbers are positive integers, and either ``tokens`` or ``sentences`` is given; if every
        next word has probability 0, or a sentence does not end.
    """
    require(Size, samples=samples)
    require(Size | None, tokens=tokens, sentences=sentences)
    if (tokens is None) == (sentences is None):
        raise UserError("sample needs either tokens or sentences", "give one of them")
    decoding = decoding or Decoding()
    randoms = generators(seed, samples)
    length, ends = torch.zeros(samples), torch.zeros(samples)
    conditions = None if condition is None else torch.full((samples,), condition)
    drawn, scores, device = [], [], model.device
    total, unit = tokens or samples * (sentences or 0), "token" if sentences is None else "sentence"
    with evaluating(model), Bar(total, unit, "samples", delay=NO_BAR) as bar:
        if condition is None and (p := shares(model)) is not None:
            if prompt is not None:
                reader = Reader(model, "")
                reader.read(prompt)
                p = reader.joint.softmax(0)  # p(c | prompt)
            conditions = torch.cat([p.cpu().multinomial(1, generator=random) for random in randoms])
        state = _after(model, prompt, samples, conditions)
        while len(drawn) < (tokens or math.inf) and (sentences is None or bool((ends < sentences).any())):
            logprobs, begun = _next(model, state, allowed)  # (S, V)
            uniform = torch.cat([torch.rand(1, 1, generator=random, dtype=torch.float64) for random in randoms])
            token = draw(decoding.weights(logprobs), uniform)
            drawn.append(token)
            scores.append(logprobs.gather(1, token).double())
            state = model.end_step(token[:, 0].to(device), begun)
            ended = token[:, 0] == EOS_ID
            if context == "sentence" and bool(ended.any()):
                state = where_rows(ended.to(device), initial_state(model, samples, conditions), state)
            if sentences is None:
                bar.update()
            else:
                bar.update(steps=int((ended & (ends < sentences)).sum()))
                ends += ended
                length = (length + 1).where(~ended & (ends < sentences), 0)
                if int(length.max()) >= LONGEST_SENTENCE:
                    raise UserError(f"a sentence has over {LONGEST_SENTENCE:,} tokens", "ask for a number of tokens")
    return Texts(torch.cat(drawn, 1), torch.cat(scores, 1), conditions, sentences)


NO_BAR = 5
"""Seconds for which sampling shows no progress bar, as most texts take less."""

ROWS, MORE_ROWS = 200, 5000
"""The batch size for sampling sentences; the second if the model `Draws`, without full distributions in memory."""

MOST_CONTINUATIONS = 1 << 27
"""The limit on prefixes times words compared by a beam search, in float64."""

LONGEST_SENTENCE = 2000
"""The maximum number of tokens in a sentence; longer ones indicate that the model does not model sentences."""


@torch.no_grad()
def sample_sentences(model: LanguageModel, sentences: int, random: torch.Generator) -> Tensor:
    """Sample independent sentences as (N,) tokens, terminated by `<eos>`; raise a UserError if one does not end.

    A text of fixed length is truncated within a sentence, likely a long one, which biases it; here none is lost.
    """
    rows = torch.arange(min(MORE_ROWS if isinstance(model, Draws) else ROWS, sentences))
    """(R,) the indices of the sentences being sampled."""
    begun, length, drawn, numbers = len(rows), torch.zeros_like(rows), [], []
    with evaluating(model), Bar(sentences, "sentence", "samples") as bar:
        state = start = model.initial_state(len(rows))
        while len(rows):
            token, state = _step(model, state, random)
            drawn.append(token)
            numbers.append(rows)
            ended = token == EOS_ID
            length = (length + 1).where(~ended, 0)
            if int(length.max()) >= LONGEST_SENTENCE:
                raise UserError(
                    f"the model samples sentences of over {LONGEST_SENTENCE:,} tokens", "choose another run"
                )
            if not (over := int(ended.sum())):
                continue
            rows = rows.masked_scatter(ended, torch.arange(begun, begun + over))
            begun += over
            start = tuple(part[: len(rows)] for part in start)
            state = where_rows(ended.to(model.device), start, state)
            if begun > sentences:
                on = rows < sentences
                rows, length, state = rows[on], length[on], tuple(part[on.to(part.device)] for part in state)
            bar.update(steps=over)
    return torch.cat(drawn)[torch.cat(numbers).argsort(stable=True)]


def _step(model: LanguageModel, state: State, random: torch.Generator) -> tuple[Tensor, State]:
    """(R,) words sampled after a state, on the CPU, and the state after them."""
    if isinstance(model, Draws):
        token, after = model.draw(state, random)
        return token[:, 0].cpu(), after
    logprobs, begun = _next(model, state)
    uniform = torch.rand(len(logprobs), 1, generator=random, dtype=torch.float64)
    token = draw(Decoding().weights(logprobs), uniform)[:, 0]  # (R,)
    return token, model.end_step(token.to(model.device), begun)


class Candidate(NamedTuple):
    """A sentence found by a search."""

    tokens: list[int]
    """Word indices without the prompt, ending with `<eos>` unless truncated."""
    logprob: float
    """The log-probability of these tokens given the prompt, in nats."""


@torch.no_grad()
def beam_search(
    model: LanguageModel,
    width: int,
    longest: int,
    *,
    prompt: Tensor | None = None,
    condition: int | None = None,
    allowed: Tensor | None = None,
) -> list[Candidate]:
    """The likeliest sentences found by beam search (Lowerre 1976), the best first; ``width`` 1 is greedy.

    Each step retains the ``width`` likeliest continuations of all prefixes and sets finished ones aside. The search
    ends once no prefix can become one of the ``width`` best.

    Args:
        longest: the maximum number of tokens in a sentence, `<eos>` included; longer ones are truncated.
        prompt: as in `sample`.
        condition: the condition of the sentences, required for a conditional model.
        allowed: (V,) bool, the words of sentences, including `<eos>`; None: all. Their log p is not renormalized.

    Raises: UserError as `sample` does, and if a condition is missing.
    """
    require(Size, width=width, longest=longest)
    if condition is None and shares(model) is not None:
        raise UserError("a beam search is for the sentences of one label", "give the label as condition")
    if width * model.vocabulary_size > MOST_CONTINUATIONS:
        most = MOST_CONTINUATIONS // model.vocabulary_size
        raise UserError(
            f"a beam of {width}: must be at most {most:,}, as the model has {model.vocabulary_size:,} words"
        )
    given = None if condition is None else torch.tensor([condition])
    ended: list[Candidate] = []
    begun = torch.empty(1, 0, dtype=torch.int64)  # (beginnings, length)
    scores = torch.zeros(1, dtype=torch.float64)  # (beginnings,)
    with evaluating(model):
        state = _after(model, prompt, 1, given)
        for _ in range(longest):
            logprobs, step = _next(model, state, allowed, impossible=torch.all)
            total = (scores[:, None] + logprobs).flatten()  # (beginnings V,)
            best = total.topk(min(width, int((total > -math.inf).sum())))
            rows, words = best.indices // model.vocabulary_size, best.indices % model.vocabulary_size
            begun, scores = torch.cat([begun[rows], words[:, None]], 1), best.values
            over = words == EOS_ID
            ended += map(Candidate, begun[over].tolist(), scores[over].tolist())
            ended = sorted(ended, key=lambda sentence: -sentence.logprob)[:width]
            begun, scores, rows, words = begun[~over], scores[~over], rows[~over], words[~over]
            if not len(scores) or (len(ended) == width and float(scores[0]) <= ended[-1].logprob):
                return ended
            state = model.end_step(words.to(model.device), tuple(part[rows.to(part.device)] for part in step))
    cut = list(map(Candidate, begun.tolist(), scores.tolist()))
    return sorted(ended + cut, key=lambda sentence: -sentence.logprob)[:width]


def _after(model: LanguageModel, prompt: Tensor | None, rows: int, conditions: Tensor | None) -> State:
    """The state of ``rows`` rows, with their conditions, after the prompt."""
    state = initial_state(model, rows, conditions)
    if prompt is not None:
        _, state = model(prompt.expand(rows, -1).to(model.device), state)
    return state


def draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """Draw a word of each row.

    Args:
        weights: (S, V) unnormalized probabilities.
        uniform: (S, 1) uniform random numbers in [0, 1).

    Returns: (S, 1) words.
    """
    total = weights.cumsum(1, dtype=torch.float64)
    return torch.searchsorted(total, total[:, -1:] * (1 - uniform))  # in (0, total], so none of weight 0 is drawn


def generators(seed: int, number: int) -> list[torch.Generator]:
    """A generator of random numbers for each text, with consecutive seeds; raise a UserError for an invalid seed."""
    require(LongSeed, seed=seed)
    return [torch.Generator().manual_seed(int(seed) + n) for n in range(number)]


def _next(
    model: LanguageModel,
    state: State,
    allowed: Tensor | None = None,
    impossible: Callable[[Tensor], Tensor] = torch.any,
) -> tuple[Tensor, State]:
    """`begin_step` with log-probabilities on the CPU, -inf for words not ``allowed``.

    Raises: UserError if no word is possible in any row, or with ``impossible=torch.all`` in all rows.
    """
    logprobs, begun = model.begin_step(state)
    if allowed is not None:
        logprobs = logprobs.where(allowed.to(logprobs.device), -math.inf)
    highest = validated(logprobs.amax(1), "")
    if bool(impossible(highest.isneginf())):
        which = "next word" if allowed is None else "next word that may be sampled"
        raise UserError(f"the model gives every {which} probability 0, so none can be sampled")
    return logprobs.cpu(), begun
