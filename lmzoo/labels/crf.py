"""A linear chain over lexical features (Lafferty et al. 2001), by the averaged perceptron of Collins (2002)."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lmzoo.core.options import Size
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import Labeller, labellers
from lmzoo.labels.templates import templates


def best_path(emissions: np.ndarray, moves: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The labels (T,) of the highest score: emissions (T, K), moves (K, K) from label to label, start (K,)."""
    back = np.empty((len(emissions), len(start)), np.int64)
    best = start + emissions[0]
    for t in range(1, len(emissions)):
        paths = best[:, None] + moves
        back[t] = paths.argmax(0)
        best = paths.max(0) + emissions[t]
    path = np.empty(len(emissions), np.int64)
    path[-1] = best.argmax()
    for t in range(len(emissions) - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path


@labellers.register("crf")
class Crf(Labeller):
    """A score for each feature of a word with its label, and for each pair of neighbouring labels.

    The perceptron adds the features of the right labels and takes off those of the best ones, sentence by sentence
    (Collins 2002, Figure 1); the weights are the mean over all sentences.
    """

    def __init__(self, *, epochs: Size, min_count: Size):
        self.epochs, self.min_count = epochs, min_count

    def fit(self, sentences: Sequence[Sentence], seed: int) -> None:
        named = [templates(sentence) for sentence in sentences]
        counts = Counter(name for rows in named for row in rows for name in row)
        self.features = {name: i for i, name in enumerate(n for n, c in counts.items() if c >= self.min_count)}
        self.labels = sorted({label for sentence in sentences for label in sentence.labels})
        number = {label: i for i, label in enumerate(self.labels)}
        texts = [[self._numbers(row) for row in rows] for rows in named]
        gold = [np.array([number[label] for label in sentence.labels]) for sentence in sentences]
        size = len(self.labels)
        shapes = ((len(self.features), size), (size, size), (size,))
        weights, late = ([np.zeros(shape) for shape in shapes] for _ in range(2))
        random = np.random.default_rng(seed)
        step = 0
        for _ in range(self.epochs):
            for i in random.permutation(len(texts)):
                found = self._best(texts[i], weights)
                for sign, path in ((1, gold[i]), (-1, found)) if (found != gold[i]).any() else ():
                    for change, table in ((sign, weights), (sign * step, late)):
                        self._add(change, texts[i], path, table)
                step += 1
        self.weights = [table - delayed / step for table, delayed in zip(weights, late, strict=True)]

    def _numbers(self, names: Sequence[str]) -> np.ndarray:
        return np.array([self.features[name] for name in names if name in self.features], np.int64)

    @staticmethod
    def _best(rows: Sequence[np.ndarray], weights: Sequence[np.ndarray]) -> np.ndarray:
        emissions, moves, start = weights
        return best_path(np.stack([emissions[row].sum(0) for row in rows]), moves, start)

    @staticmethod
    def _add(change: float, rows: Sequence[np.ndarray], path: np.ndarray, tables: Sequence[np.ndarray]) -> None:
        emissions, moves, start = tables
        for row, label in zip(rows, path, strict=True):
            emissions[row, label] += change
        np.add.at(moves, (path[:-1], path[1:]), change)
        start[path[0]] += change

    def label(self, sentence: Sentence) -> list[str]:
        path = self._best([self._numbers(row) for row in templates(sentence)], self.weights)
        return [self.labels[k] for k in path]
