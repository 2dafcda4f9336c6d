"""Patterns over the words of a sentence, and the automata that accept what matches them.

A pattern is a sequence of items with spaces between them: words; ``_`` or ``___`` for any word; ``…`` or ``...`` for
any number of words; ``[a|b]`` for one of several words; ``not [a|b]`` for any other word. Several patterns that are
joined by ``&`` must all hold. One of them may be a number of words, such as ``10..15``, ``10..`` or ``..15``, and
``not (…)`` around one means that it does not hold. A backslash makes a word of an item: ``\\_``. Where a text is cut
into characters or pieces of words, ``_`` is one of these, and any other item is cut as a word of a text is.
"""

import re
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, nearest, shortened
from lmzoo.core.options import require
from lmzoo.corpus import EOS, EOS_ID, Vocabulary
from lmzoo.corpus.form import NAMES
from lmzoo.protocol.sampling import LONGEST_SENTENCE

MOST_STATES = 500
"""The largest number of states of an automaton, before equivalent ones are merged."""
_BRACKETS = r"(not\s*)?\[([^\]]*)\]"
_ITEM = re.compile(rf"(?<!\S){_BRACKETS}(?!\S)|(?<!\S)not\s*\[\S*|\S+")
LENGTH = re.compile(r"\s*(?=[.\d]*\d)(\d{0,9})\.\.(\d{0,9})\s*")
"""A number of words, with the bounds as groups, one of which may be empty."""
_NEGATED = re.compile(r"\s*not\s*\((.*)\)\s*")
_PARENTHESIS = re.compile(r"(?<!\S)not\s*\(")


class OneOf(NamedTuple):
    """A place in a sentence with one of these words, or with any other if ``negated``."""

    words: frozenset[int]
    negated: bool = False

    def allows(self, word: int) -> bool:
        return (word in self.words) != self.negated


ANY = OneOf(frozenset(), negated=True)


class Places(NamedTuple):
    """n places one after another, with any number of words before each place in ``gaps``, n being the end."""

    places: tuple[OneOf, ...]
    gaps: frozenset[int]
    negated: bool = False
    """Whether a sentence must not match."""

    def after(self, passed: frozenset[int], word: int) -> frozenset[int]:
        """The possible numbers of places passed after one more word."""
        further = (p + 1 for p in passed if p < len(self.places) and self.places[p].allows(word))
        return frozenset(further) | passed & self.gaps

    def matched(self, passed: frozenset[int]) -> bool:
        return (len(self.places) in passed) != self.negated


class Automaton(NamedTuple):
    """Accepts sentences, which end in an accepting state, from state 0. All words of a class act alike.

    A sentence takes at most one path of Q states to acceptance. Every state is on such a path.
    """

    classes: Tensor
    """(V,) int64 the class of each word, 0 to C - 1; that of `<eos>` is C."""
    source: Tensor
    """(E,) int64 the state that each edge leaves."""
    target: Tensor
    """(E,) int64 the state that each edge leads to."""
    allowed: Tensor
    """(E, C) bool whether a word of the class takes the edge."""
    accepting: Tensor
    """(Q,) bool."""
    shortest: int
    """The least number of words of a sentence, in addition to what the states require."""
    longest: int | None
    """The largest number of words."""

    def table(self) -> Tensor:
        """(Q, C + 1) int64 the state after a word of each class, -1 if none, where the automaton is deterministic."""
        table = torch.full((len(self.accepting), self.allowed.shape[1] + 1), -1)
        edge, of_class = self.allowed.nonzero(as_tuple=True)
        table[self.source[edge], of_class] = self.target[edge]
        return table

    def accepts_something(self) -> bool:
        """Whether there is a sentence of an allowed length."""
        at, low = torch.arange(len(self.accepting)) == 0, self.shortest
        last = low + len(at) if self.longest is None else min(low + len(at), self.longest)
        for length in range(last + 1):
            if length >= low and bool((at & self.accepting).any()):
                return True
            at = torch.zeros_like(at).index_fill(0, self.target[at[self.source]], True)
        return False


class Pattern(NamedTuple):
    """A conjunction of sequences of places, and bounds of the number of words."""

    sequences: tuple[Places, ...]
    vocabulary_size: int
    text: str
    shortest: int = 0
    longest: int | None = None

    @classmethod
    def parse(cls, text: str, vocabulary: Vocabulary, where: str = "pattern") -> "Pattern":
        """Read a pattern; raise a UserError beginning with ``where`` for one that is malformed or has unknown words."""
        require(str, **{where: text})
        pattern = cls((), len(vocabulary), text)
        for part in re.split(r"(?<!\S)&(?!\S)", text):
            inner = _NEGATED.fullmatch(part)
            if not (inner[1] if inner else part).strip():
                raise UserError(f"{where} '{shortened(text)}': is empty" + " beside an &" * ("&" in text))
            if length := LENGTH.fullmatch(part):
                low, high = (int(bound) if bound else None for bound in length.groups())
                if max(low or 0, high or 0) > LONGEST_SENTENCE:
                    raise UserError(f"{where}: {part.strip()} is over {LONGEST_SENTENCE:,} words", "ask for fewer")
                pattern &= cls((), len(vocabulary), text, low or 0, high)
            elif _PARENTHESIS.search(inner[1] if inner else part):
                problem = f"{where} '{shortened(part.strip())}': 'not (' is not around one pattern, closed by ')'"
                raise UserError(problem, r"use it as not (A) & not (B); write \( where it is a word")
            else:
                places = _places(inner[1] if inner else part, vocabulary, where)._replace(negated=inner is not None)
                pattern &= cls((places,), len(vocabulary), text)
        return pattern._replace(text=text)

    def __and__(self, other: "Pattern") -> "Pattern":
        """The sentences that match both."""
        highs = [high for high in (self.longest, other.longest) if high is not None]
        return Pattern(
            self.sequences + other.sequences,
            self.vocabulary_size,
            f"{self.text} & {other.text}",
            max(self.shortest, other.shortest),
            min(highs, default=None),
        )

    def classes(self) -> tuple[Tensor, list[int]]:
        """(V,) the class of each word, as in `Automaton`; and a word of each class, -1 where it is any not named."""
        places = list(chain.from_iterable(sequence.places for sequence in self.sequences))
        kinds = {tuple(place.allows(-1) for place in places): 0}
        classes, words = torch.zeros(self.vocabulary_size, dtype=torch.int64), [-1]
        for word in sorted(frozenset().union(*(place.words for place in places))):
            kind = tuple(place.allows(word) for place in places)
            if kind not in kinds:
                kinds[kind] = len(words)
                words.append(word)
            classes[word] = kinds[kind]
        classes[EOS_ID] = len(words)
        return classes, words

    def automaton(self) -> Automaton:
        """The smallest deterministic automaton.

        Raises: UserError where no sentence matches, or there are over `MOST_STATES` states.
        """
        classes, words = self.classes()
        start = tuple(frozenset([0]) for _ in self.sequences)
        states, table = {start: 0}, []  # by subset construction
        for state in (reached := [start]):
            rows = [tuple(s.after(at, word) for s, at in zip(self.sequences, state, strict=True)) for word in words]
            reached += [after for after in dict.fromkeys(rows) if after not in states]
            table.append([states.setdefault(after, len(states)) for after in rows])
            if len(states) > MOST_STATES:
                raise UserError(f"'{shortened(self.text)}': has over {MOST_STATES} states", "ask for less at once")
        accepting = [all(s.matched(at) for s, at in zip(self.sequences, state, strict=True)) for state in reached]
        table, accepting = _smallest(table, accepting)
        edges = {(q, after): [a == after for a in row] for q, row in enumerate(table) for after in row if after >= 0}
        found = self._automaton(classes, list(edges), list(edges.values()), accepting)
        if not found.accepts_something():
            raise UserError(f"'{shortened(self.text)}': no sentence matches this pattern")
        return found

    def alignment(self) -> Automaton:
        """An automaton of a sequence with at most one gap: a state for each number of places that were passed.

        Edge k, of the first n, is that of place k. With a single gap a sentence has one path.
        """
        (sequence,) = self.sequences
        classes, words = self.classes()
        ends = [*((p, p + 1) for p in range(len(sequence.places))), *((p, p) for p in sequence.gaps)]
        allowed = [[place.allows(word) for word in words] for place in (*sequence.places, *[ANY] * len(sequence.gaps))]
        return self._automaton(classes, ends, allowed, [False] * len(sequence.places) + [True])

    def _automaton(
        self, classes: Tensor, ends: list[tuple[int, int]], allowed: list[list[bool]], accepting: list[bool]
    ) -> Automaton:
        source, target = torch.tensor(ends, dtype=torch.int64).view(-1, 2).unbind(1)
        of_edge = torch.tensor(allowed, dtype=torch.bool).view(len(ends), int(classes[EOS_ID]))
        return Automaton(classes, source, target, of_edge, torch.tensor(accepting).bool(), self.shortest, self.longest)


def _places(text: str, vocabulary: Vocabulary, where: str) -> Places:
    """The places of one sequence, in the order in which the vocabulary's models read."""
    places: list[OneOf] = []
    gaps: set[int] = set()
    joined = ""  # characters right before an item
    for item in (match[0] for match in _ITEM.finditer(text)):
        before, joined = joined, ""
        if item == "…" or re.fullmatch(r"\.{3,}", item):
            gaps.add(len(places))
        elif re.fullmatch("_+", item):
            places.append(ANY)
        elif among := re.fullmatch(_BRACKETS, item):
            numbers = {word.strip(): _words(word.strip(), vocabulary, where) for word in among[2].split("|")}
            if several := [word for word, found in numbers.items() if len(found) != 1]:
                raise UserError(f"{where}: '{several[0]}' in [ ] is not one word of this vocabulary")
            places.append(OneOf(frozenset(chain(*numbers.values())), bool(among[1])))
        elif re.match(r"(not\s*)?\[", item):
            raise UserError(f"{where}: '{item}' has no matching ]", r"write \[ where it is a word")
        else:
            joined = item if vocabulary.form.unit == "char" and item not in NAMES.values() else ""
            if before and joined:
                problem = f"{where}: '{before}' and '{item}' would be joined without a space"
                raise UserError(problem, "write <space> between them, or them as one")
            places += [OneOf(frozenset([word])) for word in _words(item, vocabulary, where)]
    if vocabulary.form.reverse:
        places, gaps = places[::-1], {len(places) - gap for gap in gaps}
    return Places(tuple(places), frozenset(gaps))


def _words(item: str, vocabulary: Vocabulary, where: str) -> Sequence[int]:
    """The numbers of the words of an item, which are several only where a text is cut into smaller pieces."""
    item = item.removeprefix("\\") or item
    is_word = item in vocabulary.index and not vocabulary.form.of_pieces  # a piece inside words may look like a word
    words = [item] if is_word else vocabulary.form.without_reverse.words(item)
    numbers = [vocabulary.index.get(word, EOS_ID) for word in words]
    if item == EOS:
        raise UserError(f"{where}: {EOS} ends every sentence and is no part of it", "leave it out")
    if item and (not numbers or EOS_ID in numbers):
        raise unknown_word(where, item, vocabulary)
    return numbers


def unknown_word(where: str, item: str, vocabulary: Vocabulary) -> UserError:
    """The error for a word that a model does not know."""
    advice = nearest(item, vocabulary.index) if len(vocabulary) < 100_000 else None
    return UserError(f"{where}: '{item}' is not in the vocabulary", advice)


def _smallest(table: list[list[int]], accepting: list[bool]) -> tuple[list[list[int]], list[bool]]:
    """Merge equivalent states (Moore 1956), and put -1 for those from which no sentence is accepted."""
    alive, grown = set(), {state for state, accepts in enumerate(accepting) if accepts}
    while grown - alive:
        alive |= grown
        grown = {state for state, row in enumerate(table) if not alive.isdisjoint(row)}
    kind, refined = [], [int(accepts) if state in alive else -1 for state, accepts in enumerate(accepting)]
    while len(set(refined)) != len(set(kind)):
        kind, numbers = refined, {}  # the start has the first number
        keys = [(kind[state], *(kind[after] for after in row)) for state, row in enumerate(table)]
        refined = [numbers.setdefault(key, len(numbers)) if key[0] >= 0 else -1 for key in keys]
    first = {number: state for state, number in reversed([*enumerate(refined)]) if number >= 0}
    merged = [[refined[after] for after in table[first[number]]] for number in range(len(first))]
    return merged, [accepting[first[number]] for number in range(len(first))]
