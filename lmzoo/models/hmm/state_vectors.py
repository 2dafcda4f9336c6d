"""Vectors of hidden states, and the networks between vectors and distributions (Chiu and Rush 2020)."""

import torch
from torch import Tensor, nn

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
