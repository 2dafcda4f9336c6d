"""The averaged perceptron: Collins, "Discriminative training methods for hidden Markov models", EMNLP 2002."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.options import Size, configured
from lmzoo.labels.formats import Sentence
from lmzoo.labels.linear_chain import LexicalChain, LexicalOptions
from lmzoo.labels.model import StateDict, labellers


def best_path(emissions: np.ndarray, moves: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The labels (T,) with the highest score of one sentence, as `lmzoo.labels.chain.best` finds those of many."""
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


class PerceptronOptions(LexicalOptions):
    epochs: Size = 10
    """number of passes over the training text."""


@labellers.register("perceptron")
class Perceptron(LexicalChain):
    """After each sentence, 1 is added to the weights of its labels' features, and subtracted from those of the best
    labels (Figure 1).

    A step is an epoch. The weights are the mean over all sentences of all epochs.

    Attributes:
        live: the current weights in one array: of features (F, K), transitions (K, K) and the first label (K,).
        lag: the sum of changes times the number of sentences before each; so the mean is live - lag / sentences.
    """

    probabilistic = False

    @configured(PerceptronOptions)
    def __init__(self, options: PerceptronOptions):
        super().__init__(**options.inherited(LexicalOptions))
        self.steps = options.epochs

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        rows, gold, lengths = self.read(sentences)
        self.seed, self.done = seed, 0
        ends = np.cumsum(lengths)
        begins = np.array([*rows.begins.tolist(), len(rows.columns)])
        columns = rows.columns.numpy().astype(np.int64)
        self.sentences = [
            (columns[begins[a] : begins[b]], begins[a:b] - begins[a], np.diff(begins[a : b + 1]), gold[a:b].numpy())
            for a, b in zip([0, *ends[:-1]], ends, strict=True)
        ]
        F, K = len(self.lexical.numbers), len(self.labels)
        self.live, self.lag = np.zeros((2, F * K + K * K + K))
        self._average()

    def _tables(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The three tables in an array, as views."""
        F, K = len(self.lexical.numbers), len(self.labels)
        features, moves, start = np.split(weights, [F * K, F * K + K * K])
        return features.reshape(F, K), moves.reshape(K, K), start

    def _average(self) -> None:
        mean = self._tables(self.live - self.lag / max(self.done, 1))
        table, moves, start = (torch.from_numpy(part).float() for part in mean)
        self.weights = table, moves, start

    def step(self, number: int) -> dict[str, float]:
        right = words = 0
        table, moves, start = self._tables(self.live)
        for i in np.random.default_rng([self.seed, number]).permutation(len(self.sentences)):
            columns, begins, sizes, gold = self.sentences[i]
            path = best_path(np.add.reduceat(table[columns], begins), moves, start)
            wrong = path != gold
            right, words = right + len(gold) - int(wrong.sum()), words + len(gold)
            if wrong.any():
                columns, sizes = columns[wrong.repeat(sizes)], sizes[wrong]
                for sign, labels in ((1, gold), (-1, path)):
                    places = columns * len(self.labels) + labels[wrong].repeat(sizes)
                    self._add(sign, self.live, places, labels)
                    self._add(sign * self.done, self.lag, places, labels)
            self.done += 1
        self._average()
        return {"train/accuracy": right / words}

    def _add(self, change: float, weights: np.ndarray, places: np.ndarray, labels: np.ndarray) -> None:
        """Add ``change`` to the weights of features at ``places``, and of transitions between the labels (T,)."""
        _, moves, start = self._tables(weights)
        np.add.at(weights, places, change)
        np.add.at(moves, (labels[:-1], labels[1:]), change)
        start[labels[0]] += change

    def state(self) -> StateDict:
        (place,) = np.nonzero((self.live != 0) | (self.lag != 0))
        arrays = {"place": place, "live": self.live[place], "late": self.lag[place]}
        return {"done": torch.tensor(self.done)} | {name: torch.from_numpy(array) for name, array in arrays.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.done = int(state["done"])
        for name, weights in (("live", self.live), ("late", self.lag)):
            weights[state["place"].numpy()] = state[name].numpy()
        self._average()
