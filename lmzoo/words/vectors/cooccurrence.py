"""How often words occur near each other."""

import itertools
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lmzoo.words.vectors.method import WordText

BLOCK = 1 << 24
"""How many pairs are sorted at once."""

Weighting = Literal["flat", "linear", "harmonic"]
"""What a pair of words k apart counts in a window of L: 1; (L - k + 1) / L, the mean over word2vec's windows of random
size; 1/k, as in GloVe."""


@dataclass(frozen=True)
class Cooccurrences:
    """A symmetric (V, V) matrix X: (P,) rows, columns and float32 weights of the entries above 0, row by row."""

    size: int
    row: Tensor
    column: Tensor
    weight: Tensor

    @classmethod
    def of(cls, text: WordText, window: int, weighting: Weighting = "flat") -> "Cooccurrences":
        """Σ of the weights of all pairs of words that are 1, …, ``window`` apart on one line.

        Raises: UserError if there are none.
        """
        text.require_neighbours()
        V, tokens, lines = len(text.words), text.tokens.numpy(), text.lines.numpy()
        distance = np.arange(1, window + 1)
        weight = {"flat": distance**0.0, "linear": (window - distance + 1) / window, "harmonic": 1 / distance}[
            weighting
        ]
        codes, sums = np.empty(0, np.int64), np.empty(0)  # iV + j, ascending, and the weight of each
        for k, begin in itertools.product(range(1, window + 1), range(0, len(tokens), BLOCK)):
            end = max(begin, min(begin + BLOCK, len(tokens) - k))
            first, second = slice(begin, end), slice(begin + k, end + k)
            near = lines[first] == lines[second]
            found, times = np.unique(tokens[first][near] * V + tokens[second][near], return_counts=True)
            codes, sums = _summed(np.append(codes, found), np.append(sums, times * weight[k - 1]))
        row, column = np.divmod(codes, V)
        codes, sums = _summed(np.append(codes, column * V + row), np.append(sums, sums))
        row, column = np.divmod(codes, V)
        return cls(V, torch.from_numpy(row), torch.from_numpy(column), torch.from_numpy(sums.astype(np.float32)))


def _summed(codes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct codes, ascending, and the sum of the weights of each."""
    order = np.argsort(codes, kind="stable")  # one pass where two ascending lists are merged
    codes = codes[order]
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    return codes[starts], np.add.reduceat(weights[order], starts) if len(starts) else weights
