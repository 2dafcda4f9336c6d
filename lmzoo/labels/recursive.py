"""Recursive networks that label the nodes of binary trees."""

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.core.options import BelowOne, Dropout, NonNegative, Size, Source
from lmzoo.labels.formats import Sentence
from lmzoo.labels.gradient import NetworkLabeller, placed, start_from
from lmzoo.labels.model import State, labellers, packed, unpacked
from lmzoo.labels.tree_network import RNTN, Forest, Recursive, TreeLSTM, TreeNetwork, forest
from lmzoo.labels.trees import SENTIMENTS, Tree, polarity_accuracy

BATCH = 256
"""Trees that are labelled at once."""


class RecursiveLabeller(NetworkLabeller[TreeNetwork]):
    """Vectors of words are composed along the tree, and each node is labelled by its vector; learnt by Adagrad.

    The loss is the sum of the cross-entropies of all nodes of a batch, and l2 / 2 of the squared weights but those of
    words. A step is a batch. Words are in lower case.

    Args:
        embedding: dimensions of the vectors of words and nodes.
        vectors: a run of ``lmzoo vectors``, or a file of word vectors of that size, to start from; None: none.
        scale: words' vectors are drawn from -scale to scale.
        dropout: the rate of words' vectors, and of nodes' before they are labelled.
        unknown: the rate at which a word that train has once is unknown.
        epochs: how often train is read.
        batch: trees of a step.
        lr: Adagrad's rate, of all but words' vectors.
        lr_words: the rate of words' vectors.
        l2: the penalty is half of it times the sum of the squared weights, but those of words.
        average: the decay of the exponential average of the weights that labels; None: the weights label themselves.
    """

    kind = "tree"
    sums = ("sum",)
    cell: type[Recursive] | type[TreeLSTM]

    def __init__(
        self,
        *,
        embedding: Size,
        vectors: Source | None,
        scale: NonNegative,
        dropout: Dropout,
        unknown: Dropout,
        epochs: Size,
        batch: Size,
        lr: NonNegative,
        lr_words: NonNegative,
        l2: NonNegative,
        average: BelowOne | None,
    ):
        self.embedding, self.vectors, self.scale, self.dropout = embedding, vectors, scale, dropout
        self.unknown, self.epochs, self.batch, self.l2 = unknown, epochs, batch, l2
        self.rates, self.decay = (lr, lr_words), average

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        self.sentences, self.seed = sentences, seed
        self.epoch = -(-len(sentences) // self.batch)
        self.steps = self.epochs * self.epoch
        counts = Counter(word.lower() for sentence in sentences for word in sentence.words)
        torch.manual_seed(seed)
        self._know(sorted(counts), sorted({label for sentence in sentences for label in sentence.labels}))
        self.once = torch.tensor([False, *(counts[word] == 1 for word in self.words)])
        start_from(self.vectors, words := self.network.embedding.weight, self.words)
        self.network.to(self.device)
        lr, lr_words = self.rates
        network = [parameter for parameter in self.network.parameters() if parameter is not words]
        groups = [{"params": [words], "lr": lr_words}, {"params": network, "lr": lr, "weight_decay": self.l2}]
        self.optimizer = torch.optim.Adagrad(groups, fused=self.device.type == "cpu")
        self.follow(self.decay)

    def _know(self, words: Sequence[str], labels: Sequence[str]) -> None:
        """Take words, whose numbers begin at 1 as 0 is the unknown word, and labels, and build a network for them."""
        self.words, self.labels = list(words), list(labels)
        self.numbers = {word: i for i, word in enumerate(words, 1)}
        self.network = TreeNetwork(
            len(self.words) + 1, len(self.labels), self.embedding, self.cell, self.dropout, self.scale
        )

    def _inputs(self, trees: Sequence[Sentence]) -> tuple[Tensor, Forest]:
        words = [self.numbers.get(word.lower(), 0) for tree in trees for word in tree.words]
        return torch.tensor(words), forest([tree.right for tree in trees if isinstance(tree, Tree)])

    def _order(self, epoch: int) -> Sequence[int]:
        """The trees of an epoch."""
        return self.in_order(epoch, lambda random: random.permutation(len(self.sentences)).tolist())

    def step(self, number: int) -> dict[str, float]:
        epoch, place = divmod(number, self.epoch)
        self.draw(number)
        trees = [self.sentences[i] for i in self._order(epoch)[place * self.batch : (place + 1) * self.batch]]
        words, shape = self._inputs(trees)
        words = words.masked_fill(self.once[words] & (torch.rand(words.shape) < self.unknown), 0)
        of = {label: i for i, label in enumerate(self.labels)}
        gold = torch.tensor([of[label] for tree in trees for label in tree.labels])
        self.network.train()
        scores = self.network(*placed((words, shape), self.device))
        loss = F.cross_entropy(scores, gold.to(self.device), reduction="sum")
        self.optimizer.zero_grad()
        loss.backward()
        self.descend()
        return {"loss/train": float(loss.detach()) / len(gold)}

    def known(self) -> State:
        return {"words": packed(self.words), "labels": packed(self.labels)}

    def know(self, state: Mapping[str, Tensor]) -> None:
        self._know(unpacked(state["words"]), unpacked(state["labels"]))

    def _scores(self, trees: Sequence[Sentence]) -> list[Tensor]:
        """(N, K) of the nodes of each tree."""
        found: list[Tensor] = []
        with self.labelling():
            for begin in range(0, len(trees), BATCH):
                some = trees[begin : begin + BATCH]
                scores = self.network(*placed(self._inputs(some), self.device)).cpu()
                found += scores.split([2 * len(tree.words) - 1 for tree in some])
        return found

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


@labellers.register("rntn")
class RecursiveTensorNetwork(RecursiveLabeller):
    """A recursive neural tensor network (Socher et al. 2013)."""

    cell = RNTN


@labellers.register("treelstm")
class TreeLSTMLabeller(RecursiveLabeller):
    """A binary tree-LSTM (Tai et al. 2015)."""

    cell = TreeLSTM
