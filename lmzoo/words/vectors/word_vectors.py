"""Words and their vectors, and the words nearest to a word."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.errors import UserError, nearest, shortened


class NoVectorError(UserError, KeyError):
    """The error for a word without a vector."""

    __str__ = Exception.__str__


@dataclass(frozen=True, repr=False)
class WordVectors:
    """V words, the most frequent first, and the (V, d) float32 matrix of their vectors.

    As in gensim, ``word in vectors`` and ``vectors[word]`` are of a word as it is written.

        >>> vectors = lmzoo.load("outputs/pydoc/ppmi")
        >>> "list" in vectors, "zebra" in vectors, vectors["list"].shape
        (True, False, (200,))
    """

    words: list[str]
    matrix: Tensor

    def __repr__(self) -> str:
        return f"<vectors of {len(self):,} words in {self.matrix.shape[1]} dimensions>"

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self.index

    def __getitem__(self, word: str) -> np.ndarray:
        """The (d,) vector of a word; raise a `NoVectorError`, which is a KeyError, if it has none."""
        if not isinstance(word, str):
            raise TypeError(f"a word is a string, not {word!r}; the rows are those of `matrix`")
        if (row := self.index.get(word)) is None:
            raise NoVectorError(f"'{shortened(word)}' has no vector", nearest(word, self.words))
        return self.matrix[row].cpu().numpy()

    def most_similar(self, word: str, number: int = 10) -> list[tuple[str, float]]:
        """The other words with the largest cosine to a word, and their cosines, nearest first.

            >>> vectors.most_similar("list", 2)
            [('...', 0...), ('...', 0...)]

        Raises: NoVectorError for a word without a vector.
        """
        return self._nearest(torch.from_numpy(self[word]), [word], number)

    def analogy(self, a: str, b: str, c: str, number: int = 10) -> list[tuple[str, float]]:
        """The words nearest to a - b + c, and their cosines: ``analogy("king", "man", "woman")`` asks for a queen.

        The three vectors have length 1, and their words are left out, as in gensim's
        ``most_similar(positive=[a, c], negative=[b])``; it is 3CosAdd.

            >>> vectors.analogy("list", "lists", "tuples", 1)
            [('...', 0...)]

        Raises: NoVectorError for a word without a vector.
        """
        first, minus, plus = (unit(torch.from_numpy(self[word])) for word in (a, b, c))
        return self._nearest(first - minus + plus, [a, b, c], number)

    def _nearest(self, vector: Tensor, without: Sequence[str], number: int) -> list[tuple[str, float]]:
        """The words with the largest cosine to a (d,) vector."""
        cosines = self.unit @ unit(vector.to(self.unit))
        rows = {self.index[word] for word in without}
        cosines[[*rows]] = -torch.inf
        best = cosines.topk(max(0, min(number, len(self) - len(rows))))
        return [(self.words[row], cosine) for cosine, row in zip(*map(Tensor.tolist, best), strict=True)]

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


def unit(matrix: Tensor) -> Tensor:
    """(…, d) vectors, each divided by its length."""
    return torch.nn.functional.normalize(matrix, dim=-1)
