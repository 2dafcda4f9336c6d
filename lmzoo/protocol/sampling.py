"""Text drawn from any language model, and its likeliest sentences."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.core.errors import UserError
from lmzoo.core.progress import Bar
from lmzoo.corpus import EOS_ID, Context
from lmzoo.protocol.abilities import Draws
from lmzoo.protocol.condition import initial_state, shares
from lmzoo.protocol.model import LanguageModel, State, evaluating
from lmzoo.protocol.perplexity import checked
from lmzoo.protocol.reader import Reader


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Which of the next words may be drawn, and how often; the default draws from the model as it is.

    The temperature comes first, then each rule in the order given here; ``top_k=1`` is greedy.

    Attributes:
        temperature: τ; p(x)^(1/τ) / Σ p^(1/τ) takes the place of p.
        top_k: the k likeliest words alone (Fan et al. 2018).
        top_p: the fewest likeliest words that have this probability together (Holtzman et al. 2020).
        typical: the fewest words with this probability together whose -log p is nearest to the entropy (Meister et
            al. 2023).

    Raises: ValueError for a value that cannot be.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    typical: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature={self.temperature}: must be positive and finite")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k={self.top_k}: must be at least 1")
        for name in ("top_p", "typical"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name}={getattr(self, name)}: must be above 0 and at most 1")

    def weights(self, logprobs: Tensor) -> Tensor:
        """(B, V) log-probabilities in nats -> (B, V), in proportion to how often each word is drawn; float64 where a
        rule changes them."""
        if self == Decoding():
            return logprobs.exp()
        logprobs = logprobs.double()
        p = ((logprobs - logprobs.amax(1, keepdim=True)) / self.temperature).exp()
        if self.top_k is not None and self.top_k < p.shape[1]:
            likeliest = p.topk(self.top_k, dim=1)
            p = torch.zeros_like(p).scatter(1, likeliest.indices, likeliest.values)
        if self.top_p < 1:
            p = _nucleus(p, p, self.top_p)
        if self.typical < 1:
            surprisal = -(p / p.sum(1, keepdim=True)).log()  # (B, V)
            entropy = torch.special.entr(p / p.sum(1, keepdim=True)).sum(1, keepdim=True)
            p = _nucleus(p, -(surprisal - entropy).abs(), self.typical)
        return p


def _nucleus(p: Tensor, rank: Tensor, mass: float) -> Tensor:
    """(B, V) weights p of the words of highest rank (B, V) that have this share of them together; 0 for the rest."""
    enough = mass * p.sum(1, keepdim=True)
    for most in (min(512, p.shape[1]), p.shape[1]):  # few words have most of the mass, so seldom are all sorted
        first = rank.topk(most, dim=1).indices
        ordered = p.gather(1, first)
        total = ordered.cumsum(1)
        if bool((total[:, -1:] >= enough).all()):
            break
    return torch.zeros_like(p).scatter(1, first, ordered.where(total - ordered < enough, 0))


class Texts(NamedTuple):
    """S texts of N tokens."""

    tokens: Tensor
    """(S, N) int64 word numbers."""
    logprobs: Tensor
    """(S, N) their log-probabilities in nats under the model, whatever the decoding; float64."""
    conditions: Tensor | None
    """(S,) what each text was drawn given; None where the model has no conditions."""


@torch.no_grad()
def sample(
    model: LanguageModel,
    tokens: int,
    seed: int,
    *,
    context: Context,
    decoding: Decoding | None = None,
    prompt: Tensor | None = None,
    samples: int = 1,
    condition: int | None = None,
) -> Texts:
    """Texts drawn word by word side by side, each beginning at a sentence boundary.

    Afterwards the model has the mode (training or evaluation) it had before.

    Args:
        context: with ``sentence`` the model forgets everything at each `<eos>`.
        decoding: which words may be drawn; None draws from the model as it is.
        prompt: (P,) words that each first sentence begins with, P at least 1; they are read and not drawn.
        condition: that of all texts. Without it, a model that has conditions draws one for each text from p(c), or
            p(c | prompt).

    Raises: ValueError where tokens or samples is less than 1; UserError where the model gives every next word
        probability 0.
    """
    for name, number in (("tokens", tokens), ("samples", samples)):
        if number < 1:
            raise ValueError(f"{name}={number}: must be at least 1")
    decoding = decoding or Decoding()
    random = torch.Generator().manual_seed(seed)
    conditions = None if condition is None else torch.full((samples,), condition)
    drawn, scores, device = [], [], model.device
    with evaluating(model):
        if condition is None and (p := shares(model)) is not None:
            if prompt is not None:
                reader = Reader(model, "")
                reader.read(prompt)
                p = reader.joint.softmax(0)  # p(c | prompt)
            conditions = p.cpu().multinomial(samples, replacement=True, generator=random)
        state = _after(model, prompt, samples, conditions)
        for _ in range(tokens):
            logprobs, begun = _next(model, state)  # (S, V)
            token = _drawn(decoding.weights(logprobs), random)
            drawn.append(token)
            scores.append(logprobs.gather(1, token).double())
            state = model.end_step(token[:, 0].to(device), begun)
            if context == "sentence" and bool((ended := token == EOS_ID).any()):
                start = initial_state(model, samples, conditions)
                state = _chosen(ended[:, 0].to(device), start, state)
    return Texts(torch.cat(drawn, 1), torch.cat(scores, 1), conditions)


BLOCK = 64
"""Words whose weights are summed together when one is drawn."""

ROWS, MORE_ROWS = 200, 5000
"""Sentences drawn side by side; the second where no probabilities of all words are in memory."""

MOST_CONTINUATIONS = 1 << 27
"""The most beginnings times words that a beam search compares, in float64."""

LONGEST_SENTENCE = 2000
"""Tokens of a sentence; a model that draws a longer one is no model of sentences."""


@torch.no_grad()
def sample_sentences(model: LanguageModel, sentences: int, random: torch.Generator) -> Tensor:
    """(N,) tokens of so many independent sentences, each closed by `<eos>`; a UserError where one does not end.

    A text of given length breaks off within a sentence, and this is likelier a long one; here none is lost.
    """
    rows = torch.arange(min(MORE_ROWS if isinstance(model, Draws) else ROWS, sentences))
    """(R,) the numbers of the sentences that are being drawn."""
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
                raise UserError(f"the model draws sentences of over {LONGEST_SENTENCE:,} tokens", "choose another run")
            if not (over := int(ended.sum())):
                continue
            rows = rows.masked_scatter(ended, torch.arange(begun, begun + over))
            begun += over
            start = tuple(part[: len(rows)] for part in start)
            state = _chosen(ended.to(model.device), start, state)
            if begun > sentences:
                on = rows < sentences
                rows, length, state = rows[on], length[on], tuple(part[on.to(part.device)] for part in state)
            for _ in range(over):
                bar.update()
    return torch.cat(drawn)[torch.cat(numbers).argsort(stable=True)]


def _step(model: LanguageModel, state: State, random: torch.Generator) -> tuple[Tensor, State]:
    """(R,) words drawn after a state, on the CPU, and the state after them."""
    if isinstance(model, Draws):
        token, after = model.draw(state, random)
        return token[:, 0].cpu(), after
    logprobs, begun = _next(model, state)
    token = _drawn(Decoding().weights(logprobs), random)[:, 0]  # (R,)
    return token, model.end_step(token.to(model.device), begun)


class Candidate(NamedTuple):
    """A sentence that a search found."""

    tokens: list[int]
    """Word numbers without the prompt; `<eos>` is the last one unless the sentence was cut off."""
    logprob: float
    """Of these tokens given the prompt, in nats."""


@torch.no_grad()
def beam_search(
    model: LanguageModel, width: int, longest: int, *, prompt: Tensor | None = None, condition: int | None = None
) -> list[Candidate]:
    """The likeliest sentences that a beam search finds (Lowerre 1976), the best first; ``width`` 1 is greedy.

    In each step the ``width`` likeliest continuations of all beginnings are kept. Those that end are set aside, and the
    search is over once no beginning can become one of the ``width`` best.

    Args:
        longest: most tokens of a sentence, `<eos>` included; what is not over by then is cut off.
        prompt: as in `sample`.
        condition: that of the sentences, which a model that has conditions needs.

    Raises: ValueError where width or longest is less than 1; UserError as `sample` does, and where a condition is
        missing.
    """
    for name, number in (("width", width), ("longest", longest)):
        if number < 1:
            raise ValueError(f"{name}={number}: must be at least 1")
    if condition is None and shares(model) is not None:
        raise UserError("a beam search is for the sentences of one label", "give --condition LABEL")
    if width * model.vocabulary_size > MOST_CONTINUATIONS:
        most = MOST_CONTINUATIONS // model.vocabulary_size
        raise UserError(f"--beam {width}: must be at most {most:,}, as the model has {model.vocabulary_size:,} words")
    given = None if condition is None else torch.tensor([condition])
    ended: list[Candidate] = []
    begun = torch.empty(1, 0, dtype=torch.int64)  # (beginnings, length)
    scores = torch.zeros(1, dtype=torch.float64)  # (beginnings,)
    with evaluating(model):
        state = _after(model, prompt, 1, given)
        for _ in range(longest):
            logprobs, step = _next(model, state)
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
    """The state in which each of so many rows, with its condition, has read the prompt."""
    state = initial_state(model, rows, conditions)
    if prompt is not None:
        _, state = model(prompt.expand(rows, -1).to(model.device), state)
    return state


def _drawn(weights: Tensor, random: torch.Generator) -> Tensor:
    """(S, 1) words, each drawn as often as its weight in (S, V) says: first a block of words, then a word of it."""
    blocks = F.pad(weights, (0, -weights.shape[1] % BLOCK)).view(len(weights), -1, BLOCK)
    total = blocks.sum(2, dtype=torch.float64).cumsum(1)  # (S, blocks)
    at = total[:, -1:] * (1 - torch.rand(len(total), 1, generator=random, dtype=torch.float64))  # above 0, at most all
    block = torch.searchsorted(total, at)  # a word of weight 0 never
    before = F.pad(total, (1, 0)).gather(1, block)
    inside = blocks[torch.arange(len(blocks)), block[:, 0]].double().cumsum(1)
    word = torch.searchsorted(inside, (at - before).minimum(inside[:, -1:]))
    return block * BLOCK + word


def _next(model: LanguageModel, state: State) -> tuple[Tensor, State]:
    """`begin_step`, with log-probabilities on the CPU; a UserError where no word is possible in a row."""
    logprobs, begun = model.begin_step(state)
    highest = checked(logprobs.amax(1), "")
    if bool(highest.isneginf().any()):
        raise UserError("the model gives every next word probability 0, so that none can be drawn")
    return logprobs.cpu(), begun


def _chosen(which: Tensor, one: State, other: State) -> State:
    """In the rows where ``which`` (B,) is true, one state, and else the other."""
    rows = [which.view(-1, *[1] * (part.ndim - 1)) for part in one]
    return tuple(map(torch.where, rows, one, other))
