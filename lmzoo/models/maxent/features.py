"""Templates of features over a history, and which features hold where.

A template names the attributes that it looks at: ``w1`` is the last word, ``w2`` is the word before it, ``c1`` is the
last word's class. ``w1 w2`` makes trigrams, ``w2`` alone skips a word, the empty template makes unigrams. A feature is
a template, a value of each of its attributes, and an outcome that the training text has after them. It holds of every
history with these values, and of that outcome.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.models.maxent.lattice import Lattice, Level
from lmzoo.numerics.hashing import find
from lmzoo.numerics.sparse import ranges

Template = tuple[int, ...]
"""The columns of `attributes` that a template looks at, ascending."""

MOST_PAIRS = 1 << 28
"""The most pairs of a lattice; each takes about 60 bytes in training."""


def parse_templates(kinds: str, order: int, texts: Sequence[str], where: str) -> list[Template]:
    """The templates of n-grams from order 2 up, of each kind, ``w`` (after words) or ``c`` (after classes), and those
    of texts such as ``"w1 c2"``, of at most order - 1 words; a UserError with ``where`` for another text.
    """
    templates = [tuple(2 * m + (kind == "w") for m in range(1, n)) for kind in kinds for n in range(2, order + 1)]
    for text in texts:
        names = re.findall(r"\b([wc])([1-9]\d?)\b", text)
        if not names or " ".join(kind + place for kind, place in names) != text:
            raise UserError(f"{where}: '{text}' must be names such as w1, the last word, and c2, the class before it")
        if max(int(place) for _, place in names) >= order:
            raise UserError(f"{where}: '{text}' looks beyond the {order - 1} words that a model of order {order} sees")
        templates.append(tuple(sorted({2 * int(place) + (kind == "w") for kind, place in names})))
    return templates


def possible(outcomes: Tensor, order: int, absent: int, outcome_class: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """(N, 2n) `attributes` of (N,) outcomes, all absent but the class c0 where it is given, and the outcomes."""
    x = outcomes.new_full((len(outcomes), 2 * order), absent)
    if outcome_class is not None:
        x[:, 0] = outcome_class
    return x, outcomes


def attributes(
    context: Tensor, absent: int, word_class: Tensor | None = None, outcome_class: Tensor | None = None
) -> Tensor:
    """(N, n - 1) words, oldest first -> (N, 2n): columns 2m and 2m + 1 are the class and the word m places before y.

    `<eos>` stands before a sentence. Attributes before it are absent.

    Args:
        absent: stands for an absent attribute.
        word_class: (V,) the class of each word; without it, the classes are absent.
        outcome_class: (N,) the class c0 of the outcome itself; without it, c0 is absent.
    """
    words = context.flip(1)  # (N, n - 1), nearest first
    ends = words == EOS_ID
    beyond = ends.cumsum(1) > ends.long()
    columns = words.new_full((len(words), words.shape[1] + 1, 2), absent)
    columns[:, 1:, 1] = words.masked_fill(beyond, absent)
    if word_class is not None:
        columns[:, 1:, 0] = word_class[words].masked_fill(beyond, absent)
    if outcome_class is not None:
        columns[:, 0, 0] = outcome_class
    return columns.flatten(1)


def contexts(tokens: Tensor, order: int) -> Tensor:
    """The n - 1 words before each of a text's (T,) tokens, oldest first, (T, n - 1)."""
    padded = torch.cat([tokens.new_full((order - 1,), EOS_ID), tokens])
    return padded.unfold(0, order, 1)[:, :-1]


@dataclass(frozen=True)
class Features:
    """All features, as a trie of attribute values. A node lists the outcomes that were seen with its values.

    Attributes:
        templates: from coarse to fine. The first lists every possible outcome.
        size: attributes are 0 … size - 1. The last one stands for an absent attribute.
        columns: the number of attributes.
        outcomes: y is 0 … outcomes - 1.
        nodes: (R,) ascending keys, (parent's row · columns + column) · size + value. Row 0 of the trie is the root, and
            row r > 0 is the key r - 1. The path to a node has the columns of a template, or the first of them.
        pairs: (F,) ascending keys of the features, row · outcomes + y.
    """

    templates: Sequence[Template]
    size: int
    columns: int
    outcomes: int
    nodes: Tensor
    pairs: Tensor

    def rows(self, x: Tensor, template: Template) -> Tensor:
        """(N, columns) attributes -> (N,) rows of the values that a template looks at; -1 if the trie lacks them."""
        rows = x.new_zeros(len(x))
        for column in template:
            place = find(self.nodes, (rows * self.columns + column) * self.size + x[:, column])
            rows = torch.where((place >= 0) & (rows >= 0), place + 1, -1)
        return rows

    def outcome(self, feature: Tensor) -> Tensor:
        """The outcome y of each of some features, by their numbers."""
        return self.pairs[feature] % self.outcomes

    def levels(self, x: Tensor, shared: bool = True) -> tuple[list[Level], Tensor]:
        """(N, columns) attributes -> the levels, and (N,) which context of the last level each history is.

        Args:
            shared: whether equal histories are one context. Else row i is context i of every level.

        Raises: UserError where more than `MOST_PAIRS` features hold of the contexts.
        """
        everyone = torch.arange(len(x), device=x.device)
        context = torch.zeros_like(everyone) if shared else everyone
        levels: list[Level] = []
        pairs: list[Tensor] = []  # of each level, ascending keys: context · outcomes + y
        end = 0
        for template in self.templates:
            finer = context
            for column in template if shared else ():
                finer = torch.unique(finer * self.size + x[:, column], return_inverse=True)[1]
            size = int(finer.max()) + 1 if len(x) else 0
            example = everyone.new_empty(size).scatter_(0, finer, everyone)  # (C,) a history of each context
            shorter, row = context[example], self.rows(x[example], template)
            first = torch.searchsorted(self.pairs, row * self.outcomes)
            count = torch.searchsorted(self.pairs, (row + 1) * self.outcomes) - first
            begin, end = end, end + int(count.sum())
            if end > MOST_PAIRS:
                raise UserError(f"{end:,} features or more occur in the text's contexts", "leave out skips over words")
            owner, feature = ranges(first, count)  # (K,)
            y = self.outcome(feature)
            suffix = finest(levels, pairs, shorter[owner], y, self.outcomes) if levels else owner[:0]
            levels.append(Level(begin, end, owner, feature, suffix, shorter))
            pairs.append(owner * self.outcomes + y)
            context = finer
        return levels, context

    def lattice(self, x: Tensor, y: Tensor) -> Lattice:
        """The lattice that scores (N,) outcomes y, given their (N, columns) attributes."""
        levels, context = self.levels(x)
        pairs = [level.context * self.outcomes + self.outcome(level.feature) for level in levels]
        return Lattice(levels, context, finest(levels, pairs, context, y, self.outcomes))


def finest(levels: list[Level], pairs: list[Tensor], context: Tensor, y: Tensor, outcomes: int) -> Tensor:
    """(K,) contexts of the last level and outcomes -> the finest pair of each, -1 for none; ``pairs`` are keys."""
    pair = torch.full_like(y, -1)
    remaining = torch.arange(len(y), device=y.device)
    for level, keys in zip(reversed(levels), reversed(pairs), strict=True):
        place = find(keys, context * outcomes + y)
        pair[remaining] = torch.where(place >= 0, place + level.begin, -1)
        missing = place < 0
        remaining, y, context = remaining[missing], y[missing], level.shorter[context[missing]]
    return pair


def coarse_to_fine(templates: Iterable[Template]) -> list[Template]:
    """Each template once, first those that look back less far: then contexts become finer as late as possible."""
    return sorted(set(templates), key=lambda template: (max(template, default=-1), len(template)))


def collect(
    x: Tensor, y: Tensor, templates: Sequence[Template], size: int, outcomes: int
) -> tuple[Features, Tensor, Tensor]:
    """(N, columns) attributes and (N,) outcomes -> their F features, (F,) occurrences, and (F,) places of templates."""
    columns = x.shape[1]
    rows: dict[Template, Tensor] = {(): x.new_zeros(len(x))}
    nodes, count = [x.new_empty(0)], 1
    for depth in range(1, max(map(len, templates)) + 1):
        paths = sorted({template[:depth] for template in templates if len(template) >= depth})
        keys = []
        for path in paths:
            above, value = rows[path[:-1]], x[:, path[-1]]
            key = (above * columns + path[-1]) * size + value
            keys.append(key.where((above >= 0) & (value < size - 1), -1))
        distinct, inverse = torch.unique(torch.cat(keys), return_inverse=True)
        nothing = int((distinct < 0).sum())  # 1 if some attribute is absent, else 0
        inverse = torch.where(inverse >= nothing, inverse - nothing + count, -1)
        rows |= dict(zip(paths, inverse.split(len(x)), strict=True))
        nodes.append(distinct[nothing:])
        count += len(nodes[-1])
    keys = torch.stack([rows[template] * outcomes + y for template in templates])  # (templates, N)
    place = torch.arange(len(templates), device=x.device)[:, None].expand_as(keys)
    present = torch.stack([rows[template] for template in templates]) >= 0
    pairs, inverse, counts = torch.unique(keys[present], return_inverse=True, return_counts=True)
    place = torch.empty_like(pairs).scatter_(0, inverse, place[present])
    return Features(templates, size, columns, outcomes, torch.cat(nodes), pairs), counts, place
