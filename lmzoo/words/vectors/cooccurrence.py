"""How often words occur near each other."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lmzoo.words.vectors.method import WordText

BLOCK = 1 << 24
"""About how many pairs are sorted at once."""

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
        V, bits = len(text.words), (window - 1).bit_length()
        distance = np.arange(1, window + 1)
        weight = {"flat": distance**0.0, "linear": (window - distance + 1) / window, "harmonic": 1 / distance}[
            weighting
        ]
        total = np.empty(0, np.int64), np.empty(0)
        for codes in _blocks(text.tokens.numpy(), text.lines.numpy(), V, window, bits):
            codes.sort()
            new = _summed(codes >> bits, weight[codes & ((1 << bits) - 1)])
            total = _total(total, new)
        codes, sums = total
        later, earlier = np.divmod(codes, V)
        turned = earlier * V + later
        order = np.argsort(turned, kind="stable")
        codes, sums = _total(total, (turned[order], sums[order]))
        row, column = np.divmod(codes, V)
        return cls(V, torch.from_numpy(row), torch.from_numpy(column), torch.from_numpy(sums.astype(np.float32)))


def _blocks(tokens: np.ndarray, lines: np.ndarray, V: int, window: int, bits: int) -> Iterator[np.ndarray]:
    """2^bits (iV + j) + k - 1 for all words i and j of which i is k before j, many at a time."""
    step = max(1, BLOCK // window)
    first = tokens * V << bits
    second = tokens << bits
    whole = lines[:1] == lines[-1:]  # one line alone
    for begin in range(0, len(tokens), step):
        pairs = []
        for k in range(1, window + 1):
            end = max(begin, min(begin + step, len(tokens) - k))
            codes = first[begin:end] + (second[begin + k : end + k] + (k - 1))
            pairs.append(codes if whole else codes[lines[begin:end] == lines[begin + k : end + k]])
        yield np.concatenate(pairs)


WeightSums = tuple[np.ndarray, np.ndarray]
"""Ascending codes, and a weight for each."""


def _summed(codes: np.ndarray, weights: np.ndarray) -> WeightSums:
    """Ascending codes -> the distinct ones, and the sum of the weights of each."""
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    return codes[starts], np.add.reduceat(weights, starts) if len(starts) else weights


def _total(a: WeightSums, b: WeightSums) -> WeightSums:
    codes, weights = np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])
    order = np.argsort(codes, kind="stable")  # which merges two ascending lists in one pass
    return _summed(codes[order], weights[order])
