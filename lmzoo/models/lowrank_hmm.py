"""The HMM with transitions of low rank (Chiu, Deng and Rush, NeurIPS 2021); https://arxiv.org/abs/2201.02715"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from lmzoo.clustering import Clustering
from lmzoo.hmm import lowrank
from lmzoo.models.block_hmm import Embeddings, NeuralBlockHMM
from lmzoo.registry import Dropout, Size, models

POINTING = 8.0
"""Logit by which a fresh feature prefers the states of its cluster."""


class LowRank(NamedTuple):
    """p(j | i) = Σ_r p(r | i) p(j | r)."""

    P: Tensor
    """(M, K, f) p(r | i)."""
    Q: Tensor
    """(M, K, f) p(j | r)."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        return lowrank.tiles(self.P, self.Q, source, target)

    def leaving(self, cluster: int) -> Tensor:
        M = len(self.Q)
        source = torch.full((M,), cluster, device=self.Q.device)
        return self.tiles(source, torch.arange(M, device=self.Q.device)).transpose(0, 1)

    def kept(self) -> "LowRank":
        return self


@models.register("lowrank_hmm")
class LowRankHMM(NeuralBlockHMM):
    """p(j | i) = φ(u_i)·φ(v_j) / φ(u_i)·Σ_k φ(v_k); otherwise the HMM of Chiu and Rush (2020), see `NeuralBlockHMM`.

    φ(x) = exp(Wx) or exp(Wx - ‖x‖²/2), of which the expectation over normal W is a softmax: φ(u)·φ(v) ≈ f exp(u·v).
    W begins with orthogonal rows and is learned; u_i = Res_t(e_i)/d^¼, v_j = e′_j/d^¼. The published model has
    emissions of every word from every state, where this has a cluster's words from its own states. With free
    vectors, and as many features as clusters, each cluster begins with features of its own, which lead to its states.

    Args:
        features: f, the rank of the transition matrix.
        feature_map: φ.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        states: Size,
        clusters: Size,
        clustering: Clustering,
        dim: Size,
        embeddings: Embeddings,
        tied: bool,
        dropout: Dropout,
        features: Size,
        feature_map: Literal["exp", "softmax_kernel"],
        state_dropout: Dropout,
    ):
        super().__init__(
            vocabulary_size=vocabulary_size,
            states=states,
            clusters=clusters,
            clustering=clustering,
            dim=dim,
            embeddings=embeddings,
            tied=tied,
            dropout=dropout,
            state_dropout=state_dropout,
        )
        self.feature_map = feature_map
        self.features = nn.Parameter(lowrank.orthogonal_rows(features, dim))
        if embeddings == "free":
            self._point_to_clusters()

    def add_transitions(self) -> None:
        self.transition = self.residual()
        self.add_destination(1.0)

    @torch.no_grad()
    def _point_to_clusters(self) -> None:
        """Have each feature lead to the states of one cluster, nearly alike, and a fresh state prefer no feature.

        With all vectors random φ(v_j) is large for a few features and states, whichever they are, which takes long to
        unlearn. Rows of W are nearly orthogonal, so the sum of a cluster's has a large product with these alone, as
        long as they are far fewer than d.
        """
        f, d = self.features.shape
        links = torch.arange(max(f, self.clusters))  # every cluster to a feature, every feature to a cluster
        cluster, feature = links * self.clusters // len(links), links * f // len(links)
        ahead = self.features.new_zeros(self.clusters, d).index_add(0, cluster, self.features[feature])
        v = (self.origin if self.tied else self.destination).get_parameter("weight")
        v.mul_(d**-0.25).view(self.clusters, -1, d).add_(ahead[:, None] * (POINTING * d**-0.75))
        self.transition.get_submodule("norm").get_parameter("weight").fill_(d**-0.25)

    def transitions(self, e: Tensor, states: Tensor) -> LowRank:
        return LowRank(*lowrank.factors(self.phi(self.transition(e)), self.phi(self.destinations(e, states))))

    def phi(self, x: Tensor) -> Tensor:
        """(..., d) -> (..., f) log φ(x/d^¼)."""
        x = x * self.dim**-0.25
        logits = x @ self.features.T
        return logits if self.feature_map == "exp" else logits - x.square().sum(-1, keepdim=True) / 2
