"""Recursive networks that label nodes of binary trees."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.core.options import Dropout, NonNegative, Size, Source, configured
from lmzoo.labels.formats import Sentence
from lmzoo.labels.gradient import DescentOptions, NetworkLabeller, initialize_embeddings, to_device
from lmzoo.labels.model import index_labels, labellers
from lmzoo.labels.tree_network import RNTN, Forest, Recursive, TreeLSTM, TreeNetwork, forest
from lmzoo.labels.trees import SENTIMENTS, Tree, polarity_accuracy

BATCH = 256
"""The number of trees per batch of predictions."""


class RecursiveOptions(DescentOptions):
    epochs: Size = 8
    batch: Size = 25
    """trees per batch."""
    optimizer: str = "adagrad"
    lr: NonNegative = 0.05
    schedule: str = "constant"
    embedding: Size = 30
    """dimension of the vectors of words and nodes."""
    vectors: Source | None = None
    """a run of ``lmzoo vectors``, or a file of word vectors of that size, to initialize embeddings; None: none."""
    scale: NonNegative = 0.1
    """word vectors are initialized uniformly in ±scale."""
    dropout: Dropout = 0.0
    """dropout rate of word vectors, and of node vectors before the classifier."""
    unknown: Dropout = 0.0
    """rate at which words that occur once in train are replaced by the unknown word."""
    lr_words: NonNegative = 0.05
    """learning rate of word vectors."""
    l2: NonNegative = 1e-5
    """penalty: half of this times the sum of the squared weights, word vectors excluded."""


class RecursiveLabeller(NetworkLabeller[TreeNetwork]):
    """Composes word vectors along the tree, and labels each node by its vector.

    The loss is the sum of the cross-entropies of all nodes of a batch, plus l2 / 2 times the squared weights except
    word vectors. Words are lower-cased.
    """

    kind = "tree"
    saved = ("labels", "numbers")
    cell: type[Recursive] | type[TreeLSTM]

    @configured(RecursiveOptions)
    def __init__(self, options: RecursiveOptions):
        super().__init__(**options.inherited(DescentOptions))
        self.settings = options

    def read(self, sentences: Sequence[Sentence]) -> None:
        self.sentences = sentences
        counts = Counter(word.lower() for sentence in sentences for word in sentence.words)
        self.numbers = {word: i for i, word in enumerate(sorted(counts), 1)}
        """The index of each word; 0 is the unknown word."""
        self.labels, self.gold = index_labels(sentences)
        self.once = torch.tensor([False, *(counts[word] == 1 for word in self.numbers)])

    def build(self) -> TreeNetwork:
        words, labels, chosen = len(self.numbers) + 1, len(self.labels), self.settings
        return TreeNetwork(words, labels, chosen.embedding, self.cell, chosen.dropout, chosen.scale)

    def begin(self) -> None:
        initialize_embeddings(self.settings.vectors, self.network.embedding.weight, [*self.numbers])

    def parameter_groups(self) -> list[dict[str, Any]]:
        words = self.network.embedding.weight
        layers = [parameter for parameter in self.network.parameters() if parameter is not words]
        of_layers = {"params": layers, "lr": self.lr, "weight_decay": self.settings.l2}
        return [{"params": [words], "lr": self.settings.lr_words}, of_layers]

    def _inputs(self, trees: Sequence[Sentence]) -> tuple[Tensor, Forest]:
        words = [self.numbers.get(word.lower(), 0) for tree in trees for word in tree.words]
        return torch.tensor(words), forest([tree.right for tree in trees if isinstance(tree, Tree)])

    def loss(self, batch: Tensor) -> tuple[Tensor, int]:
        trees = batch.tolist()
        words, shape = self._inputs([self.sentences[i] for i in trees])
        words = words.masked_fill(self.once[words] & (torch.rand(words.shape) < self.settings.unknown), 0)
        gold = torch.cat([self.gold[i] for i in trees]).to(self.device)
        scores = self.network(*to_device((words, shape), self.device))
        return F.cross_entropy(scores, gold, reduction="sum"), len(gold)

    @torch.no_grad()
    def _scores(self, trees: Sequence[Sentence]) -> list[Tensor]:
        """(N, K) scores of the nodes of each tree."""
        self.network.eval()
        scores: list[Tensor] = []
        for begin in range(0, len(trees), BATCH):
            batch = trees[begin : begin + BATCH]
            nodes = self.network(*to_device(self._inputs(batch), self.device)).cpu()
            scores += nodes.split([2 * len(tree.words) - 1 for tree in batch])
        return scores

    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        return [[self.labels[k] for k in scores.argmax(1).tolist()] for scores in self._scores(sentences)]

    def figures(self, sentences: Sequence[Sentence]) -> dict[str, float | None]:
        if self.labels != SENTIMENTS or any(tree.labels[0] not in SENTIMENTS for tree in sentences):
            return {}
        roots = [scores[0].softmax(0).tolist() for scores in self._scores(sentences)]
        return {"polarity_accuracy": polarity_accuracy(sentences, roots)}


@labellers.register("recursive")
class RecursiveNetwork(RecursiveLabeller):
    """A recursive neural network (Socher et al. 2011)."""

    cell = Recursive


@labellers.register("rntn", embedding=25, lr=0.002)  # small, since each unit sums 4 embedding² entries of V
class RecursiveTensorNetwork(RecursiveLabeller):
    """A recursive neural tensor network (Socher et al. 2013)."""

    cell = RNTN


@labellers.register("treelstm", embedding=100, dropout=0.5, epochs=10, lr_words=0.1, l2=1e-4)
class TreeLSTMLabeller(RecursiveLabeller):
    """A binary tree-LSTM (Tai et al. 2015)."""

    cell = TreeLSTM
