"""Linear-chain labellers of words."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.memory import require_memory
from lmzoo.core.options import Options, Size, Source, configured
from lmzoo.labels.chain import Scores, batches, best
from lmzoo.labels.formats import Sentence
from lmzoo.labels.lexical import Lexical
from lmzoo.labels.model import FEWER, Labeller, StateDict, index_labels
from lmzoo.numerics.sparse import SparseRows

BATCH = 4096
"""The number of words and padding per batch of predictions."""


class ChainLabeller(Labeller):
    """Predicts the labels, from K ``labels``, with the highest s(y); if ``probabilistic``, p(y | x) = exp(s(y)) / Z."""

    saved = ("labels",)
    labels: list[str]
    probabilistic: bool = True

    @abstractmethod
    def scores(self, sentences: Sequence[Sentence]) -> Scores:
        """The scores of sentences, without gradients."""

    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        labelled: dict[int, list[str]] = {}
        for batch in batches([len(sentence.words) for sentence in sentences], BATCH):
            scores = self.scores([sentences[i] for i in batch])
            if not all(bool((part < math.inf).all()) for part in (scores.emission[scores.inside()], *scores[1:3])):
                raise UserError("the model's scores of labels are not numbers", "train it again")
            for number, path in zip(batch, best(scores), strict=True):
                labelled[number] = [self.labels[k] for k in path]
        return [labelled[i] for i in range(len(sentences))]


class LexicalOptions(Options):
    min_count: Size = 1
    """features with a lower count in train are left out."""
    clusters: Source | None = None
    """a file of ``lmzoo cluster --paths``: path prefixes of words are features, too. None: none."""


class LexicalChain(ChainLabeller):
    """A chain with a weight of each feature with each label, and of each transition.

    Attributes:
        weights: (F, K) of features, (K, K) of transitions, and (K,) of the first label.
    """

    saved = ("labels", "lexical")
    weights: tuple[Tensor, Tensor, Tensor]

    @configured(LexicalOptions)
    def __init__(self, options: LexicalOptions):
        self.lexical = Lexical(options.min_count, "labeller.min_count", options.clusters)

    def read(self, sentences: Sequence[Sentence]) -> tuple[SparseRows, Tensor, list[int]]:
        """Read train. Returns: the features of its N words, their labels (N,), and sentence lengths."""
        self.lexical.start(sentences)
        self.labels, gold = index_labels(sentences)
        F, K = len(self.lexical.numbers), len(self.labels)
        require_memory(2 * 8 * (F + K) * K, f"the weights of {F:,} features and {K:,} labels", FEWER)
        return self.lexical.rows(sentences), torch.cat(gold), [len(labels) for labels in gold]

    def state_dict(self) -> StateDict:
        table, moves, start = self.weights
        place = table.flatten().nonzero()[:, 0]
        weight = table.flatten()[place]
        trained = {"place": place, "weight": weight, "moves": moves, "start": start}
        return super().state_dict() | trained

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
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
        """(N, K) scores of each word with each label, from its features only."""
        return self.lexical.rows(sentences) @ self.weights[0]
