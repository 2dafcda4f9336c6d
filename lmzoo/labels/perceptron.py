"""The averaged perceptron: Collins, "Discriminative training methods for hidden Markov models", EMNLP 2002."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.options import Size, Source
from lmzoo.labels.linear_chain import LinearChain
from lmzoo.labels.model import StateDict, labellers
from lmzoo.numerics.sparse import SparseRows

Weights = list[np.ndarray]
"""(F, K) of features, (K, K) of neighbours, (K,) of the first label."""


def best_path(emissions: np.ndarray, moves: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The labels (T,) of the highest score of one sentence, as `lmzoo.labels.chain.best` finds those of many."""
    back = np.empty((len(emissions), len(start)), np.int64)
    best, incoming = start + emissions[0], np.ascontiguousarray(moves.T)
    for t in range(1, len(emissions)):
        paths = incoming + best
        paths.argmax(1, out=back[t])
        best = paths.max(1) + emissions[t]
    path = np.empty(len(emissions), np.int64)
    path[-1] = best.argmax()
    for t in range(len(emissions) - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path


@labellers.register("perceptron")
class Perceptron(LinearChain):
    """After each sentence the features of its labels gain 1, and those of the best labels lose 1 (Figure 1).

    A step is an epoch. The weights are the mean over all sentences of all epochs.

    Args:
        epochs: how often train is read.
    """

    probabilistic = False

    def __init__(self, *, epochs: Size, min_count: Size, clusters: Source | None):
        super().__init__(min_count=min_count, clusters=clusters)
        self.steps = epochs

    def prepare(self, rows: SparseRows, gold: Tensor, lengths: Sequence[int], seed: int) -> None:
        F, K = len(self.lexical.numbers), len(self.labels)
        self.seed, self.done = seed, 0
        ends = np.cumsum(lengths)
        begins = np.array([*rows.begins.tolist(), len(rows.columns)])
        columns = rows.columns.numpy().astype(np.int64)
        self.sentences = [
            (columns[begins[a] : begins[b]], begins[a:b] - begins[a], np.diff(begins[a : b + 1]), gold[a:b].numpy())
            for a, b in zip([0, *ends[:-1]], ends, strict=True)
        ]
        self.live, self.late = ([np.zeros(shape) for shape in ((F, K), (K, K), (K,))] for _ in range(2))
        self._average()

    def _average(self) -> None:
        means = [table - delayed / max(self.done, 1) for table, delayed in zip(self.live, self.late, strict=True)]
        table, moves, start = (torch.from_numpy(mean).float() for mean in means)
        self.weights = table, moves, start

    def step(self, number: int) -> dict[str, float]:
        right = words = 0
        for i in np.random.default_rng([self.seed, number]).permutation(len(self.sentences)):
            columns, begins, sizes, gold = self.sentences[i]
            emissions = np.add.reduceat(self.live[0][columns], begins)
            found = best_path(emissions, *self.live[1:])
            wrong = found != gold
            right, words = right + len(gold) - int(wrong.sum()), words + len(gold)
            if wrong.any():
                columns, sizes = columns[wrong.repeat(sizes)], sizes[wrong]
                for sign, path in ((1, gold), (-1, found)):
                    places = columns * len(self.labels) + path[wrong].repeat(sizes)
                    self._add(sign, self.live, places, path)
                    self._add(sign * self.done, self.late, places, path)
            self.done += 1
        self._average()
        return {"accuracy/train": right / words}

    @staticmethod
    def _add(change: float, tables: Weights, places: np.ndarray, path: np.ndarray) -> None:
        """Change the features at some places of their table, and all that depend on no word."""
        features, moves, start = tables
        np.add.at(features.reshape(-1), places, change)
        np.add.at(moves, (path[:-1], path[1:]), change)
        start[path[0]] += change

    def progress(self) -> StateDict:
        live, late = (np.concatenate([table.reshape(-1) for table in tables]) for tables in (self.live, self.late))
        (place,) = np.nonzero((live != 0) | (late != 0))
        kept = {"place": place, "live": live[place], "late": late[place]}
        return {"done": torch.tensor(self.done)} | {name: torch.from_numpy(values) for name, values in kept.items()}

    def resume(self, progress: Mapping[str, Tensor]) -> None:
        numbers = sum(table.size for table in self.live)
        self.done = int(progress["done"])
        for name, tables in (("live", self.live), ("late", self.late)):
            joined = np.zeros(numbers)
            joined[progress["place"].numpy()] = progress[name].numpy()
            ends = np.cumsum([table.size for table in tables])
            for table, part in zip(tables, np.split(joined, ends[:-1]), strict=True):
                table[...] = part.reshape(table.shape)
        self._average()
