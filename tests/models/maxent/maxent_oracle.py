"""Exponential models by dictionaries and dense scores, and the same texts and features for lmzoo's."""

import math
from collections.abc import Callable, Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor

from lmzoo.models.maxent.exponential import Exponential
from lmzoo.models.maxent.features import Features, Template, attributes, coarse_to_fine, collect, contexts

V = 5  # <eos> and four words, the last rarely seen
WORD_CLASS = torch.tensor([2, 0, 1, 0, 1])
ORDER = 4

NGRAMS = ["w1", "w1 w2", "w1 w2 w3"]
"""Each list of templates begins with `base`: nothing, or the outcome's own class, which lists that class's words."""
TEMPLATES = [
    ([], []),
    ([], ["w1"]),
    ([], NGRAMS),
    ([], ["w2"]),
    ([], ["w1 w2", "w3", "w1"]),
    ([], ["c1", "c1 c2", "c1 c2 c3", *NGRAMS]),
    ([], ["w1 w3", "c1 w2", "c3"]),
    (["c0"], NGRAMS),
    (["c0"], ["w2", "w1", "c1 c2", "c3 w1"]),
]

lines = st.lists(st.lists(st.integers(1, V - 1), max_size=6), min_size=1, max_size=6)


def stream(lines: list[list[int]]) -> Tensor:
    return torch.tensor([word for line in lines for word in [*line, 0]])


class Dense:
    """p(y | x) by dictionaries and dense scores, without a recursion; y is a word, or else a class."""

    def __init__(self, tokens: Tensor, base: list[str], templates: list[str], of_class: bool = False):
        self.templates = [tuple(base), *(tuple(base + text.split()) for text in templates)]
        self.of_class = of_class
        self.outcomes = int(WORD_CLASS.max()) + 1 if of_class else V
        possible = [({"c0": int(WORD_CLASS[y])}, y) for y in range(self.outcomes)]
        found = {f for seen, y in [*self.positions(tokens), *possible] for f in self.holding(seen, y)}
        self.index = {feature: i for i, feature in enumerate(sorted(found))}

    def positions(self, tokens: Tensor) -> list[tuple[dict[str, int], int]]:
        """The attributes of the history before each outcome, and the outcome."""
        classes, history, positions = WORD_CLASS.tolist(), [0], []
        for word in tokens.tolist():
            seen = {f"w{m}": w for m, w in enumerate(reversed(history), 1)}
            seen |= {f"c{m}": classes[w] for m, w in enumerate(reversed(history), 1)} | {"c0": classes[word]}
            positions.append((seen, classes[word] if self.of_class else word))
            history = [0] if word == 0 else [*history, word]
        return positions

    def holding(self, seen: dict[str, int], y: int) -> list[tuple[tuple[str, ...], tuple[int, ...], int]]:
        """The features that hold, the base's first."""
        return [(t, tuple(seen[n] for n in t), y) for t in self.templates if all(n in seen for n in t)]

    def scorer(self, tokens: Tensor) -> Callable[[Tensor], Tensor]:
        """Weights -> (tokens, outcomes) log-probabilities."""
        matrix = torch.zeros(len(tokens), self.outcomes, len(self.index), dtype=torch.float64)
        impossible = torch.zeros(len(tokens), self.outcomes, dtype=torch.bool)
        for t, (seen, _) in enumerate(self.positions(tokens)):
            for y in range(self.outcomes):
                holding = self.holding(seen, y)
                impossible[t, y] = holding[0] not in self.index
                matrix[t, y, [self.index[f] for f in holding if f in self.index]] = 1
        return lambda weights: (matrix @ weights).masked_fill(impossible, -math.inf).log_softmax(1)

    def observed(self, tokens: Tensor) -> Tensor:
        """(tokens,) outcomes."""
        return torch.tensor([y for _, y in self.positions(tokens)])

    def numbers(self, features: Features) -> Tensor:
        """(F,) the number here of each of lmzoo's features; every feature is in both."""
        numbers = torch.full((len(features.pairs),), -1)
        for (names, values, y), number in self.index.items():
            x = torch.full((1, features.columns), features.size - 1)
            for name, value in zip(names, values, strict=True):
                x[0, columns([name])[0]] = value
            key = features.rows(x, columns(names)) * features.outcomes + y
            numbers[(features.pairs == key).nonzero().item()] = number
        assert sorted(numbers.tolist()) == list(range(len(self.index)))
        return numbers


def columns(names: Sequence[str]) -> Template:
    return tuple(sorted(2 * int(name[1:]) + (name[0] == "w") for name in names))


def text_of(tokens: Tensor, of_class: bool = False) -> tuple[Tensor, Tensor]:
    x = attributes(contexts(tokens, ORDER), V, WORD_CLASS, WORD_CLASS[tokens])
    return x, WORD_CLASS[tokens] if of_class else tokens


def possible(of_class: bool = False) -> tuple[Tensor, Tensor]:
    y = torch.arange(int(WORD_CLASS.max()) + 1 if of_class else V)
    x = torch.full((len(y), 2 * ORDER), V)
    if not of_class:
        x[:, 0] = WORD_CLASS
    return x, y


def features_of(tokens: Tensor, base: list[str], templates: list[str], of_class: bool = False) -> Features:
    ours = coarse_to_fine(columns(base + text.split()) for text in ["", *templates])
    x, y = (torch.cat(parts) for parts in zip(text_of(tokens, of_class), possible(of_class), strict=True))
    return collect(x, y, ours, V + 1, len(possible(of_class)[1]))[0]


def exponential(base: list[str], templates: list[str], l2: float = 0.0, l1: float = 0.0) -> Exponential:
    """lmzoo's model, with float64 weights."""
    ours = [columns(base + text.split()) for text in ["", *templates]]
    return Exponential(possible(), size=V + 1, templates=ours, l2=[l2], l1=[l1], trainable=False).double()


def draw(size: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(size))
