"""An HMM whose transitions choose a cluster first, then a state of it."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from lmzoo.core.registry import models
from lmzoo.models.hmm.inference import blocks
from lmzoo.models.hmm.neural_block_hmm import NeuralBlockHMM


class TwoLevel(NamedTuple):
    """p(j | i) = p(c | i) p(j | c, i), p(j | c, i) ∝ exp(u_i·v_j) over the states j of cluster c."""

    arrival: Tensor
    """(M, K, M) log p(c | i)."""
    U: Tensor
    """(M, K, d) vectors of the states as origin."""
    V: Tensor
    """(M, K, d) vectors of the states as destination."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        return blocks.local_tiles(self.arrival, self.U, self.V, source, target)

    def leaving(self, cluster: int) -> Tensor:
        M, K, _ = self.V.shape
        inside = blocks.single(self.U[cluster] @ self.V.flatten(0, 1).T).view(K, M, K).log_softmax(2)
        return self.arrival[cluster][:, :, None] + inside

    def kept(self) -> "TwoLevel":
        return self


@models.register("twolevel_hmm")
class TwoLevelHMM(NeuralBlockHMM):
    """p(j | i) = p(c | i) p(j | c, i), c the cluster of state j; otherwise the HMM of Chiu and Rush (2020).

        p(c | i)    ∝ exp(w_c·Res_c(e_i) + b_c) over the M clusters,
        p(j | c, i) ∝ exp(Res_t(e_i)·v_j) over the S states of c,
    and p(z_1 = j) is the same with the vector e_0 of a sentence's boundary, which no word comes from, for e_i.
    As a word gives its cluster away, no sum over all states is left: a step costs one tile, and a batch as many
    tiles as cluster pairs that follow each other in it, however many states there are. See `NeuralBlockHMM`.
    The factorisation is that of class-based models (Goodman, "Classes for fast maximum entropy training", 2001).
    """

    def add_start(self) -> None:
        self.boundary = nn.Parameter(0.1 * torch.randn(self.dim))

    def first_states(self, e: Tensor, transitions: TwoLevel) -> Tensor:
        cluster = blocks.single(self.next_cluster(self.arrival(self.boundary))).log_softmax(0)  # (M,)
        inside = blocks.single(transitions.V @ self.transition(self.boundary)).log_softmax(1)  # (M, K)
        return cluster[:, None] + inside

    def add_transitions(self) -> None:
        self.arrival, self.transition = self.residual(), self.residual()
        self.next_cluster = nn.Linear(self.dim, self.clusters)
        self.add_destination(self.dim**-0.5)

    def transitions(self, e: Tensor, states: Tensor) -> TwoLevel:
        arrival = blocks.single(self.next_cluster(self.arrival(e))).log_softmax(2)  # (M, K, M)
        return TwoLevel(arrival, self.transition(e), self.destinations(e, states))
