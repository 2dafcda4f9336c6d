"""Networks that compose vectors of the nodes of binary trees, from the leaves to the root."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lmzoo.numerics.dropout import Dropping

NodeState = tuple[Tensor, ...]
"""The (n, d) tensors that nodes pass to their parents; the first holds the vectors of nodes."""


class Forest(NamedTuple):
    """Trees by level, so that all nodes of a level are composed together.

    Attributes:
        levels: from the roots, of nodes at equal distance from them, siblings adjacent: how many have children, which
            are the next level, and (n,) the index of each when those precede leaves.
        leaves: (L,) the leaves level by level, as indices in text order.
        places: (N,) the index of each node when levels are concatenated.
    """

    levels: list[tuple[int, Tensor]]
    leaves: Tensor
    places: Tensor


def forest(trees: Sequence[Sequence[int]]) -> Forest:
    """The levels of trees; each node is represented by the index of its right child, 0 for a leaf.

    Nodes are in the order of their opening brackets, so that a left child follows its parent.
    """
    sizes = np.array([len(tree) for tree in trees])
    roots = sizes.cumsum() - sizes
    right = np.concatenate([np.asarray(tree) + root * (np.asarray(tree) > 0)
                            for tree, root in zip(trees, roots, strict=True)])  # fmt: skip
    levels, nodes, level = [], [], roots
    while len(level):
        inner = level[right[level] > 0]
        order = np.empty_like(level)
        order[np.argsort(right[level] == 0, kind="stable")] = np.arange(len(level))
        levels.append((len(inner), torch.from_numpy(order)))
        nodes.append(level)
        level = np.stack([inner + 1, right[inner]], 1).reshape(-1)
    listed = np.concatenate(nodes)
    places = np.empty_like(listed)
    places[listed] = np.arange(len(listed))
    leaf = right == 0
    leaves = (leaf.cumsum() - 1)[listed[leaf[listed]]]
    return Forest(levels, torch.from_numpy(leaves), torch.from_numpy(places))


class Recursive(nn.Module):
    """p = tanh(W [a; b] + b): Socher, Lin, Ng & Manning, "Parsing natural scenes and natural language with recursive
    neural networks", ICML 2011, equation 6. A leaf is the vector of its word.

    Args:
        d: the size of the vectors of words and nodes.
    """

    def __init__(self, d: int):
        super().__init__()
        self.W = nn.Linear(2 * d, d)
        with torch.no_grad():  # initially a node is approximately the mean of its children
            self.W.weight.mul_(0.1).add_(torch.eye(d).repeat(1, 2) / 2)
            self.W.bias.zero_()

    def leaf(self, vectors: Tensor) -> NodeState:
        """(n, d) vectors of words -> the states of leaves."""
        return (vectors,)

    def forward(self, children: NodeState) -> NodeState:
        """(n, 2, d) states of n pairs of children -> (n, d) states of their parents."""
        return (self.W(children[0].flatten(1)).tanh(),)


class RNTN(Recursive):
    """p = tanh([a; b]ᵀ V [a; b] + W [a; b]): Socher et al., "Recursive deep models for semantic compositionality over
    a sentiment treebank", EMNLP 2013, section 4.3; V is (d, 2d, 2d). W has a bias, as in `Recursive`.
    """

    def __init__(self, d: int):
        super().__init__(d)
        self.V = nn.Parameter(torch.empty(d, 2 * d, 2 * d).uniform_(-1 / (4 * d), 1 / (4 * d)))

    def forward(self, children: NodeState) -> NodeState:
        pairs = children[0].flatten(1)  # (n, 2d)
        products = (pairs @ self.V.flatten(0, 1).mT).view(len(pairs), *self.V.shape[:2])  # (n, d, 2d)
        return ((products @ pairs[:, :, None]).squeeze(2).add(self.W(pairs)).tanh(),)


class TreeLSTM(nn.Module):
    """The binary tree-LSTM: Tai, Socher & Manning, "Improved semantic representations from tree-structured long
    short-term memory networks", ACL 2015, equations 9 to 14. Words are at leaves only, and leaves have no children.
    """

    def __init__(self, d: int):
        super().__init__()
        self.W = nn.Linear(d, 3 * d, bias=False)
        self.U = nn.Linear(2 * d, 5 * d, bias=False)
        self.b = nn.Parameter(torch.zeros(4, d))

    def leaf(self, vectors: Tensor) -> NodeState:
        """(n, d) vectors of words -> h and c."""
        i, o, u = self.W(vectors).chunk(3, 1)
        return self._gated(i, o, u, torch.zeros_like(vectors))

    def forward(self, children: NodeState) -> NodeState:
        """(n, 2, d) h and c of n pairs of children -> (n, d) h and c of their parents."""
        h, c = children
        i, o, u, *f = self.U(h.flatten(1)).chunk(5, 1)
        return self._gated(i, o, u, ((torch.stack(f, 1) + self.b[3]).sigmoid() * c).sum(1))

    def _gated(self, i: Tensor, o: Tensor, u: Tensor, carried: Tensor) -> NodeState:
        c = (i + self.b[0]).sigmoid() * (u + self.b[2]).tanh() + carried
        return (o + self.b[1]).sigmoid() * c.tanh(), c


class TreeNetwork(nn.Module):
    """Vectors of words -> vectors of nodes -> (N, K) scores of labels.

    Args:
        words: the number of words with vectors.
        labels: K.
        d: the size of all vectors.
        cell: the composition function.
        dropout: the rate for word vectors, and for nodes before their scores.
        scale: word vectors are initialized uniformly in (-scale, scale).
    """

    def __init__(self, words: int, labels: int, d: int, cell: type[Recursive] | type[TreeLSTM], dropout: float,
                 scale: float):  # fmt: skip
        super().__init__()
        self.embedding = nn.Embedding(words, d)
        nn.init.uniform_(self.embedding.weight, -scale, scale)
        self.cell = cell(d)
        self.dropout = Dropping(dropout)
        self.output = nn.Linear(d, labels)

    def forward(self, words: Tensor, forest: Forest) -> Tensor:
        """Scores of each node, from the (L,) words at the leaves in text order."""
        state = self.cell.leaf(self.dropout(self.embedding(words[forest.leaves])))
        leaves = [len(order) - inner for inner, order in forest.levels]
        of_leaves = zip(*(part.split(leaves) for part in state), strict=True)
        vectors: list[Tensor] = []
        children: NodeState = ()
        for (inner, order), nodes in zip(forest.levels[::-1], list(of_leaves)[::-1], strict=True):
            if inner:
                parents = self.cell(tuple(part.unflatten(0, (-1, 2)) for part in children))
                nodes = tuple(torch.cat(parts)[order] for parts in zip(parents, nodes, strict=True))
            vectors.append(nodes[0])
            children = nodes
        return self.output(self.dropout(torch.cat(vectors[::-1])[forest.places]))
