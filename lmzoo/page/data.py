"""Data of the page: numbers and words, computed from loaded runs."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.api import Loaded
from lmzoo.api.questions import Filled
from lmzoo.core.errors import UserError, shortened
from lmzoo.corpus import EOS, Vocabulary
from lmzoo.corpus.conditions import label_number
from lmzoo.corpus.tokenizer import TOKENIZERS, traced
from lmzoo.models.hmm.hidden_markov import HiddenMarkovModel
from lmzoo.models.hmm.reading import beliefs, read
from lmzoo.protocol.lines import encode_prompt, known_words, mark_unknown
from lmzoo.protocol.reader import Reader
from lmzoo.protocol.sampling import Decoding, sample
from lmzoo.words.vectors.measures import scores
from lmzoo.words.vectors.word_vectors import WordVectors

LONGEST = 100
"""Words of a text that are shown, and of a sentence that an HMM reads."""

EXPECTED, STATES, EMITTED = 3, 3, 5
"""How many: words expected in the place of one, states of a word, words of a state."""

TURNING = 0.1
"""The smallest share of a posterior that a later word must move to be shown."""

Ranked = list[tuple[str, float]]
"""Words and how likely, or near, they are; the best first."""

Beliefs = list[tuple[int, float]]
"""Hidden states and how likely they are; the likeliest first."""


class Token(NamedTuple):
    """A word of a text.

    Attributes:
        word: as it stands in the text.
        p: p(x_t | x_<t) under a model; None where it is not asked for.
        known: whether the model knows it; it reads others as `<unk>`.
        expected: the likeliest words in its place.
    """

    word: str
    p: float | None
    known: bool = True
    expected: Ranked = []  # noqa: RUF012 - never changed

    @property
    def bits(self) -> float:
        """-log2 p; infinite where p is 0."""
        return 0.0 - math.log2(self.p) if self.p else math.inf  # which is 0, and not -0, of p = 1


def tokenized(vocabulary: Vocabulary, text: str) -> str:
    """Plain text cut into words, and in small letters, as leaves the smallest share of them unknown; else unchanged."""
    if not vocabulary.form.of_words or vocabulary.form.tokenizer:
        return text

    def unknown(lines: list[str]) -> float:
        words = [word for line in lines for word in vocabulary.form.words(line)]
        return sum(word not in vocabulary.index for word in words) / len(words) if words else 1.0

    ways = (str, TOKENIZERS["words"], lambda line: TOKENIZERS["words"](line.lower()), TOKENIZERS["ptb"])
    return "\n".join(min(([*map(way, text.splitlines())] for way in ways), key=unknown))


def surprisal(lm: Loaded, text: str, condition: str | None = None) -> list[list[Token]]:
    """The words of each line of a text, which stands alone, and of its `<eos>`; lines without a word are left out.

    Raises: UserError for a text of more than `LONGEST` words, for none, and as `Loaded.line` and `Loaded.expected` do.
    """
    lines = [line for line in text.splitlines() if lm.vocabulary.form.words(line)]
    _check_length(sum(len(lm.vocabulary.form.words(line)) for line in lines))
    lm.vocabulary.encode(text.splitlines())  # an error names the line in the whole text
    found = []
    for line in lines:
        scored = lm.line(line, condition)
        columns = zip(scored.words, scored.logprobs.double().exp().tolist(), scored.known.tolist(), strict=True)
        listed = not lm.model.open_vocabulary  # else the words to predict cannot be listed
        expected = lm.expected(line, EXPECTED, condition) if listed else [[]] * len(scored.words)
        found.append([Token(*column, ranked) for column, ranked in zip(columns, expected, strict=True)])
    return found


class Next(NamedTuple):
    """The likeliest next words.

    Attributes:
        begun: the beginning of a word that is being typed; empty after a space.
        share: the probability of all words that begin like that.
        words: the likeliest of them, and the share of that probability that each has.
        warning: which of the words before are unknown to the model; None where none is.
    """

    begun: str
    share: float
    words: Ranked
    warning: str | None


def next_words(lm: Loaded, text: str, number: int, condition: str | None = None) -> Next:
    """What may come after the beginning of a line, whose last word may lack its end."""
    vocabulary, form, text = lm.vocabulary, lm.vocabulary.form, text.replace("\n", " ")
    tail = "" if not form.of_words or text[-1:].isspace() else "".join(text.split()[-1:])
    begun, start = "".join(form.words(tail)[-1:]), text[: len(text) - len(tail)]
    if form.tokenizer:  # which may make several words of the tail
        cut, places = traced(tail, [(at, at + 1) for at in range(len(tail))], form.tokenizer)
        start += tail[: places[cut.rfind(" ") + 1][0]] if cut else tail
    _check_length(len(form.words(text)), least=0)
    prefix, warning = encode_prompt(lm.model, vocabulary, start, "the beginning")
    reader = Reader(lm.model, lm.run.path, label_number(condition, vocabulary))
    if prefix is not None:
        reader.read(prefix)
    p = reader.next_words()
    fitting = torch.tensor([word.startswith(begun) and (word != EOS or not begun) for word in vocabulary.words])
    share = float(p[fitting].sum())
    found = p.where(fitting, 0).topk(min(number, len(p)))
    is_known = known_words(lm.model, vocabulary)[found.indices]
    words = mark_unknown([vocabulary.words[word] for word in found.indices.tolist()], is_known.tolist())
    ranked = zip(words, found.values.tolist(), strict=True)
    return Next(begun, share, [(word, value / share) for word, value in ranked if value], warning)


class Sampled(NamedTuple):
    """A text that a model has drawn.

    Attributes:
        label: that it was drawn given, where lines have labels.
        prompt: the words that it begins with, whose p is not asked for.
        tokens: the words drawn, and p of each under the model, whatever the decoding.
    """

    label: str | None
    prompt: list[Token]
    tokens: list[Token]


def samples(
    lm: Loaded, prompt: str, tokens: int, seed: int, number: int, decoding: Decoding, condition: str | None = None
) -> list[Sampled]:
    """Texts drawn side by side; see `lmzoo.protocol.sampling.sample`."""
    vocabulary, is_known, prompt = lm.vocabulary, known_words(lm.model, lm.vocabulary), prompt.replace("\n", " ")
    _check_length(len(vocabulary.form.words(prompt)), least=0)
    begun, _ = encode_prompt(lm.model, vocabulary, prompt, "prompt")
    drawn = sample(
        lm.model, tokens, seed, context=lm.context, decoding=decoding, prompt=begun, samples=number,
        condition=label_number(condition, vocabulary),
    )  # fmt: skip
    words = vocabulary.form.words(prompt)
    given = [] if begun is None else is_known[begun].tolist()
    first = [Token(word, None, own) for word, own in zip(words, given, strict=True)]
    labels: list[str | None] = [condition] * number
    if drawn.conditions is not None:
        labels = [vocabulary.conditions[label] for label in drawn.conditions.tolist()]
    rows = zip(labels, drawn.tokens.tolist(), drawn.logprobs.exp().tolist(), strict=True)
    return [
        Sampled(label, first, [Token(vocabulary.words[word], p) for word, p in zip(text, each, strict=True)])
        for label, text, each in rows
    ]


class Turn(NamedTuple):
    """What a later word has changed in the posterior of a word's state.

    Attributes:
        word: the number of that later word, from 0.
        moved: the share of the probability that moves to other states, the total variation.
        state: the state that gains most.
        before, after: its probability.
    """

    word: int
    moved: float
    state: int
    before: float
    after: float


class WordStates(NamedTuple):
    """The hidden states that a word may come from.

    Attributes:
        word, known: as in `Token`.
        path: its state on the likeliest path of the sentence.
        filtered: the likeliest states once the model has read up to this word, p(z_t | x_1 … x_t).
        smoothed: those once it has read as many words as are asked for; none where it has not come so far.
        turn: the later word among these that changes the posterior most; None where none changes it by `TURNING`.
    """

    word: str
    known: bool
    path: int
    filtered: Beliefs
    smoothed: Beliefs
    turn: Turn | None


class SentenceStates(NamedTuple):
    """A sentence, read by an HMM.

    Attributes:
        words: and its `<eos>`.
        read: how many words have been read for `WordStates.smoothed`.
        share: p(z | x) of the likeliest path of the whole sentence.
        emits: the likeliest words of each state that occurs.
    """

    words: list[WordStates]
    read: int
    share: float
    emits: dict[int, Ranked]


def states(lm: Loaded, text: str, words_read: int | None = None) -> SentenceStates:
    """The states of an HMM before and after later words of a sentence are known.

    Args:
        words_read: of the sentence and its `<eos>`; None is all.

    Raises: UserError for a text of none or more than `LONGEST` words, or of probability 0.
    """
    model, vocabulary = lm.model, lm.vocabulary
    assert isinstance(model, HiddenMarkovModel)
    text = " ".join(text.splitlines())
    written = [*vocabulary.form.words(text), EOS]
    _check_length(len(written) - 1)
    tokens = vocabulary.encode([text])
    found = read(model, tokens)
    if found.logprob == -math.inf:
        raise UserError("the sentence has probability 0 under the model, so its states have no posterior")
    grid, T = beliefs(found.chain).cpu(), len(tokens)
    number, states = T if words_read is None else max(1, min(words_read, T)), found.states.cpu()
    words = []
    for t, (word, is_known) in enumerate(zip(written, known_words(model, vocabulary)[tokens].tolist(), strict=True)):
        filtered = _likeliest(grid[t, t], states[t])
        smoothed = _likeliest(grid[number - 1, t], states[t]) if t < number else []
        turn = _turn(grid[t:number, t], states[t], t)
        words.append(WordStates(word, is_known, int(found.path[t]), filtered, smoothed, turn))
    shown = {state for word in words for state, _ in (*word.filtered, *word.smoothed)}
    shown |= {word.path for word in words} | {word.turn.state for word in words if word.turn}
    emits = {
        z: [(word, math.exp(logprob)) for word, logprob in _ranked(model.words(z), vocabulary.words, EMITTED)]
        for z in sorted(shown)
    }
    return SentenceStates(words, number, found.share, emits)


def _likeliest(p: Tensor, states: Tensor) -> Beliefs:
    """The likeliest of (S,) states, by their (S,) probabilities, but those below 1%."""
    best = p.topk(min(STATES, len(p)))
    return [(int(states[place]), float(value)) for value, place in zip(*best, strict=True) if value >= 0.01]


def _turn(p: Tensor, states: Tensor, t: int) -> Turn | None:
    """From the (n, S) posteriors of word t once each of the words t, t + 1, … has been read."""
    moved = (p[1:] - p[:-1]).abs().sum(1) / 2
    if not len(moved) or float(moved.max()) < TURNING:
        return None
    k = int(moved.argmax())
    gained = int((p[k + 1] - p[k]).argmax())
    return Turn(t + k + 1, float(moved[k]), int(states[gained]), float(p[k, gained]), float(p[k + 1, gained]))


def _ranked(values: Tensor, words: list[str], number: int) -> Ranked:
    """The words with the largest (V,) values; infinite ones are left out."""
    best = values.topk(min(number, len(words)))
    found = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [(words[word], value) for word, value in found if math.isfinite(value)]


def gaps(lm: Loaded, text: str, number: int) -> Filled:
    """The likeliest words of each gap of a sentence, and the likeliest joint fillings."""
    _check_length(len(text.split()))
    return lm.fill(text, number)


def neighbours(vectors: WordVectors, word: str, number: int) -> Ranked:
    """The words nearest to a word, with their cosines; a UserError where it has no vector."""
    return vectors.most_similar(vectors.words[_row(vectors, word)], number)


def analogy(vectors: WordVectors, a: str, a_star: str, b: str, number: int) -> tuple[Ranked, Ranked]:
    """The words that answer "a is to a* as b is to b*" best, by 3CosAdd and by 3CosMul.

    Raises: UserError where one of the three words has no vector.
    """
    question = torch.tensor([[_row(vectors, word) for word in (a, a_star, b)]])
    add, mul = scores(vectors.unit, question)[:, 0]
    return _ranked(add, vectors.words, number), _ranked(mul, vectors.words, number)


def _row(vectors: WordVectors, word: str) -> int:
    if (number := len(word.split())) != 1:
        raise UserError("a word is missing" if not number else f"there are {number:,} words", "write one")
    if (row := vectors.row(word.strip())) is None:
        raise UserError(f"'{shortened(word.strip())}' has no vector", "choose a word that is more frequent in the text")
    return row


def _check_length(words: int, least: int = 1) -> None:
    if words < least:
        raise UserError("there is no word yet", "write some")
    if words > LONGEST:
        raise UserError(f"the text has {words:,} words, and {LONGEST} can be shown", "shorten it")
