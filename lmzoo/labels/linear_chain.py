"""Linear chains over lexical features: what the log-linear one and the perceptron have in common."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lmzoo.core.options import Source
from lmzoo.labels.chain import Scores
from lmzoo.labels.chained import Chained
from lmzoo.labels.formats import Sentence
from lmzoo.labels.lexical import Lexical
from lmzoo.labels.model import StateDict, numbered, packed, unpacked
from lmzoo.numerics.sparse import SparseRows


class LinearChain(Chained):
    """The score of a feature of a word with its label, and of each pair of neighbouring labels.

    Args:
        min_count, clusters: see `Lexical`.

    Attributes:
        weights: (F, K) of features, those of neighbours (K, K), and those of the first label (K,).
    """

    weights: tuple[Tensor, Tensor, Tensor]

    def __init__(self, *, min_count: int, clusters: Source | None):
        self.lexical = Lexical(min_count, "labeller.min_count", clusters)

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        self.lexical.start(sentences)
        self.labels, gold = numbered(sentences)
        self.prepare(self.lexical.rows(sentences), torch.cat(gold), [len(labels) for labels in gold], seed)

    @abstractmethod
    def prepare(self, rows: SparseRows, gold: Tensor, lengths: Sequence[int], seed: int) -> None:
        """Get ready to learn from the N words of train, their labels (N,), and the lengths of its sentences."""

    def state_dict(self) -> StateDict:
        table, moves, start = self.weights
        place = table.flatten().nonzero()[:, 0]
        return self.lexical.state_dict() | {
            "labels": packed(self.labels),
            "place": place,
            "weight": table.flatten()[place],
            "moves": moves,
            "start": start,
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.lexical.load_state_dict(state)
        self.labels = unpacked(state["labels"])
        F, K = len(self.lexical.numbers), len(self.labels)
        table = torch.zeros(F * K)
        table[state["place"]] = state["weight"]
        self.weights = table.view(F, K), state["moves"], state["start"]

    def scores(self, sentences: Sequence[Sentence]) -> Scores:
        _, moves, start = self.weights
        lengths = [len(sentence.words) for sentence in sentences]
        emission = torch.nn.utils.rnn.pad_sequence([*self.emission(sentences).split(lengths)], batch_first=True)
        return Scores(emission, moves, start, torch.tensor(lengths))

    def emission(self, sentences: Sequence[Sentence]) -> Tensor:
        """(N, K) the scores of each word with each label, from its features alone."""
        return self.lexical.rows(sentences) @ self.weights[0]
