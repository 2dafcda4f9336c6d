"""Linear chains over lexical features: what the log-linear one and the perceptron have in common."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.labels.chain import Scores, batches, best
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import Labeller, State, packed, unpacked
from lmzoo.labels.sparse import Rows
from lmzoo.labels.templates import templates
from lmzoo.words.merging import read_paths

BATCH = 4096
"""Words and padding whose labels are sought at once."""


class LinearChain(Labeller):
    """The score of a feature of a word with its label, and of each pair of neighbouring labels.

    Only features that train has ``min_count`` times count.

    Args:
        min_count: how often.
        clusters: a file of words' paths in a tree of clusters, whose beginnings are features; None: there is none.

    Attributes:
        labels: K labels.
        features: the number of each of F features.
        weights: (F, K), those of neighbours (K, K), and those of the first label (K,).
    """

    labels: list[str]
    features: dict[str, int]
    weights: tuple[Tensor, Tensor, Tensor]

    def __init__(self, *, min_count: int, clusters: str | None):
        self.min_count, self.clusters = min_count, clusters
        self.paths: Mapping[str, str] = {}

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        if self.clusters is not None:
            try:
                self.paths = read_paths(Path(self.clusters))
            except UserError as error:
                raise UserError(f"labeller.clusters: {error}") from None
        named = [row for sentence in sentences for row in templates(sentence, self.paths)]
        counts = Counter(name for row in named for name in row)
        self.features = {name: i for i, name in enumerate(n for n, c in counts.items() if c >= self.min_count)}
        if not self.features:
            raise UserError(f"labeller.min_count={self.min_count}: no feature is so frequent", "set it to 1")
        self.labels = sorted({label for sentence in sentences for label in sentence.labels})
        number = {label: i for i, label in enumerate(self.labels)}
        gold = torch.tensor([number[label] for sentence in sentences for label in sentence.labels])
        lengths = [len(sentence.words) for sentence in sentences]
        self.prepare(Rows.of(map(self._numbers, named)), gold, lengths, seed)

    @abstractmethod
    def prepare(self, rows: Rows, gold: Tensor, lengths: Sequence[int], seed: int) -> None:
        """Get ready to learn from the N words of train, their labels (N,), and the lengths of its sentences."""

    def _numbers(self, names: Sequence[str]) -> list[int]:
        return [self.features[name] for name in names if name in self.features]

    def state(self) -> State:
        table, moves, start = self.weights
        place = table.flatten().nonzero()[:, 0]
        words = {"clusters.words": packed([*self.paths]), "clusters.paths": packed([*self.paths.values()])}
        return (words if self.paths else {}) | {
            "features": packed([*self.features]),
            "labels": packed(self.labels),
            "place": place,
            "weight": table.flatten()[place],
            "moves": moves,
            "start": start,
        }

    def take(self, state: Mapping[str, Tensor]) -> None:
        if self.clusters is not None:
            words, paths = unpacked(state["clusters.words"]), unpacked(state["clusters.paths"])
            self.paths = dict(zip(words, paths, strict=True))
        self.labels = unpacked(state["labels"])
        self.features = {name: i for i, name in enumerate(unpacked(state["features"]))}
        table = state["weight"].new_zeros(len(self.features) * len(self.labels))
        table[state["place"]] = state["weight"]
        self.weights = (table.view(len(self.features), -1), state["moves"], state["start"])

    def scores(self, sentences: Sequence[Sentence]) -> Scores:
        """Those of some sentences."""
        _, moves, start = self.weights
        lengths = [len(sentence.words) for sentence in sentences]
        emission = torch.nn.utils.rnn.pad_sequence([*self.emission(sentences).split(lengths)], batch_first=True)
        return Scores(emission, moves, start, torch.tensor(lengths))

    def emission(self, sentences: Sequence[Sentence]) -> Tensor:
        """(N, K) the scores of each word with each label, from its features alone."""
        names = (names for sentence in sentences for names in templates(sentence, self.paths))
        return Rows.of(map(self._numbers, names)).times(self.weights[0])

    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        found: dict[int, list[str]] = {}
        for batch in batches([len(sentence.words) for sentence in sentences], BATCH):
            for number, path in zip(batch, best(self.scores([sentences[i] for i in batch])), strict=True):
                found[number] = [self.labels[k] for k in path]
        return [found[i] for i in range(len(sentences))]
