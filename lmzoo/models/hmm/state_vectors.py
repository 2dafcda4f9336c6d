"""Vectors of hidden states, and the networks between vectors and distributions (Chiu and Rush 2020)."""

import torch
from torch import Tensor, nn

from lmzoo.models.hmm.block_hmm import BlockHMMOptions
from lmzoo.numerics.dropout import Dropping


class Residual(nn.Module):
    """Res(x) = LayerNorm(ReLU(W₂h + b₂) + h) with h = ReLU(W₁x + b₁), then dropout."""

    def __init__(self, dim: int, dropout: float):
        super().__init__()
        self.inner, self.outer, self.norm = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.LayerNorm(dim)
        self.dropout = Dropping(dropout)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x).relu()
        return self.dropout(self.norm(self.outer(h).relu() + h))


class FactoredEmbedding(nn.Module):
    """A vector for each state: one half is shared by the states of its cluster, the other half is its own."""

    def __init__(self, states: int, clusters: int, dim: int):
        super().__init__()
        self.size = states // clusters
        self.cluster, self.state = nn.Embedding(clusters, dim // 2), nn.Embedding(states, dim - dim // 2)

    def forward(self, states: Tensor) -> Tensor:
        return torch.cat([self.cluster(states // self.size), self.state(states)], -1)


def state_vectors(options: BlockHMMOptions) -> nn.Module:
    """A vector for each state, drawn from N(0, 0.01)."""
    if options.embeddings == "factored":
        vectors = FactoredEmbedding(options.states, options.clusters, options.dim)
    else:
        vectors = nn.Embedding(options.states, options.dim)
    for weight in vectors.parameters():
        nn.init.normal_(weight, std=0.1)
    return vectors


def state_network(options: BlockHMMOptions) -> nn.Module:
    """A network from the vectors of states to one of their uses; factored vectors pass a further layer."""
    last = Residual(options.dim, options.dropout)
    return nn.Sequential(Residual(options.dim, options.dropout), last) if options.embeddings == "factored" else last


class Destinations(nn.Module):
    """The vectors v_j of states as destination of a transition.

    Free vectors, and free vectors as origin that are tied to them, are drawn from a normal distribution of standard
    deviation ``scale``. Factored ones pass a layer whose outputs have about this standard deviation.
    """

    def __init__(self, options: BlockHMMOptions, origin: nn.Module, scale: float):
        super().__init__()
        self.vectors = None if options.tied else state_vectors(options)
        self.layer = Residual(options.dim, options.dropout) if options.embeddings == "factored" else None
        if self.layer is not None:
            nn.init.constant_(self.layer.norm.weight, scale)
        else:
            for weight in (origin if self.vectors is None else self.vectors).parameters():
                nn.init.normal_(weight, std=scale)

    def forward(self, e: Tensor, states: Tensor) -> Tensor:
        """(M, K, d) v_j of (M, K) states, given their (M, K, d) vectors e as origin."""
        v = e if self.vectors is None else self.vectors(states)
        return v if self.layer is None else self.layer(v)
