"""Words and their vectors, and the words nearest to a word."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS, UNK


@dataclass(frozen=True)
class WordVectors:
    """V words, the most frequent first, and the (V, d) float32 matrix of their vectors.

    Args:
        of_another: the (d,) vector of a word that is not among them, where its characters give it one.
    """

    words: list[str]
    matrix: Tensor
    of_another: Callable[[str], Tensor | None] = lambda word: None

    def with_words(self, words: Iterable[str]) -> "WordVectors":
        """These vectors and, behind them, those that other words have, but `<unk>` and `<eos>`, which are no words."""
        others = dict.fromkeys(word for word in words if self.row(word) is None and word not in (UNK, EOS))
        new = {word: vector for word in others if (vector := self.of_another(word)) is not None}
        return WordVectors([*self.words, *new], torch.vstack([self.matrix, *new.values()])) if new else self

    @cached_property
    def index(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def lower(self) -> dict[str, int]:
        """The row of each word in lower case; the first word's, where several differ in their case alone."""
        rows: dict[str, int] = {}
        for row, word in enumerate(self.words):
            rows.setdefault(word.lower(), row)
        return rows

    def lower_rows(self, groups: Sequence[Sequence[str]], size: int) -> tuple[list[int], Tensor]:
        """Which groups of so many words have vectors for all of them in lower case, and their rows (N, size)."""
        covered = [i for i, group in enumerate(groups) if all(word in self.lower for word in group)]
        rows = [[self.lower[word] for word in groups[i]] for i in covered]
        return covered, torch.tensor(rows, dtype=torch.int64).view(-1, size)

    @cached_property
    def unit(self) -> Tensor:
        """(V, d) vectors of length one; a vector of zeros stays as it is."""
        return unit(self.matrix)

    def row(self, word: str) -> int | None:
        """The row of a word, or of one that differs in its case alone; None where neither has a vector."""
        return self.index.get(word, self.lower.get(word.lower()))

    def neighbours(self, row: int, count: int) -> list[tuple[str, float]]:
        """The ``count`` words with the largest cosine, and the cosine of each, nearest first; the word itself not."""
        cosines = self.unit @ self.unit[row]
        cosines[row] = -torch.inf
        best = cosines.topk(min(count, len(self.words) - 1))
        return [(self.words[int(row)], float(cosine)) for cosine, row in zip(*best, strict=True)]


def unit(matrix: Tensor) -> Tensor:
    """(…, d) vectors, each divided by its length."""
    return torch.nn.functional.normalize(matrix, dim=-1)
