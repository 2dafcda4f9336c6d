"""The tree over clusters of words: Brown et al., "Class-based n-gram models of natural language", 1992, §3.

Clusters are merged in pairs, each time the pair that leaves the average mutual information largest. The path of a
cluster has a bit for each merge that it took part in, the last merge first. So clusters that were merged early have
paths that begin alike.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import read_lines


def paths(tokens: Tensor, cluster: Tensor) -> list[str]:
    """The path of each cluster, of 0s and 1s, from a (N,) text and the (V,) cluster of each word, 0 … C-1."""
    c, C = cluster[tokens], int(cluster.max()) + 1
    n = torch.bincount(c.roll(1) * C + c, minlength=C * C).view(C, C).double().numpy()  # n(c, c′)
    rows, columns = (sum(map(_merge_gain, counts.T), np.zeros((C, C))) for counts in (n, n.T))
    parts, path = [[k] for k in range(C)], [""] * C
    for _ in range(C - 1):
        gain = rows + columns + _corner_gain(n) - 2 * _merge_gain(n.sum(1))
        gain[np.tril_indices(len(gain))] = -np.inf
        i, j = divmod(int(gain.argmax()), len(gain))
        for bit, part in enumerate((parts[i], parts[j])):
            for k in part:
                path[k] = f"{bit}{path[k]}"
        parts[i] += parts.pop(j)
        rows, columns = _updated_gain(rows, n, i, j), _updated_gain(columns, n.T, i, j)
        n = _merge(n, i, j)
    return path


def _f(x: np.ndarray) -> np.ndarray:
    """x log x. N·I = Σ f(n(c, c′)) - 2 Σ f(n(c)) + f(N)."""
    return x * np.log(np.maximum(x, 1))


def _merge_gain(counts: np.ndarray) -> np.ndarray:
    """(C, C) f(x + y) - f(x) - f(y) of the counts (C,) of every two clusters."""
    return _f(counts[:, None] + counts) - _f(counts)[:, None] - _f(counts)


def _corner_gain(n: np.ndarray) -> np.ndarray:
    """(C, C) corrections of the sum of row and column gains: the four counts between two clusters become one count."""
    loops, across = n.diagonal(), n + n.T
    both = loops[:, None] + loops + across
    rows = _f(loops[:, None] + n.T) + _f(loops + n)  # n(i, i) + n(j, i), n(i, j) + n(j, j)
    columns = _f(loops[:, None] + n) + _f(loops + n.T)
    return _f(both) - rows - columns + _f(loops)[:, None] + _f(loops) + _f(n) + _f(n.T)


def _updated_gain(gain: np.ndarray, n: np.ndarray, i: int, j: int) -> np.ndarray:
    """Σ_x `_merge_gain` over the columns x of n, once cluster j is a part of i; all but two columns are unchanged."""
    gain = np.delete(np.delete(gain - _merge_gain(n[:, i]) - _merge_gain(n[:, j]), j, 0), j, 1)
    n = _merge(n, i, j)
    gain += _merge_gain(n[:, i])
    gain[i] = gain[:, i] = (_f(n + n[i]) - _f(n) - _f(n[i])).sum(1)
    return gain


def _merge(n: np.ndarray, i: int, j: int) -> np.ndarray:
    """Counts with cluster j as a part of i."""
    n = n.copy()
    n[i] += n[j]
    n[:, i] += n[:, j]
    return np.delete(np.delete(n, j, 0), j, 1)


def read_paths(path: Path) -> Mapping[str, str]:
    """The path of each word in a file of lines ``path TAB word TAB count``, as of `wcluster` (Liang 2005)."""
    path_of: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), 1):
        bits, _, rest = line.partition("\t")
        word = rest.partition("\t")[0]
        if not word or not bits or bits.strip("01"):
            raise UserError(f"{path}: line {number} has no path of 0s and 1s before a tab and a word",
                            "write the file with lmzoo cluster --paths")  # fmt: skip
        if path_of.setdefault(word, bits) != bits:
            raise UserError(f"{path}: line {number} has another path of '{shortened(word, 40)}' than a line before")
    return path_of
