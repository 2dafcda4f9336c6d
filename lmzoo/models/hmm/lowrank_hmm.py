"""The HMM with transitions of low rank (Chiu, Deng and Rush, NeurIPS 2021); https://arxiv.org/abs/2201.02715"""

from typing import Literal, NamedTuple, Unpack

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.options import Size
from lmzoo.core.registry import models
from lmzoo.models.hmm.inference import lowrank
from lmzoo.models.hmm.neural_block_hmm import NeuralBlockHMM, NeuralBlockHMMOptions

POINTING = 8.0
"""Logit by which a fresh feature prefers its states."""


class LowRank(NamedTuple):
    """p(j | i) = Σ_r p(r | i) p(j | r)."""

    P: Tensor
    """(M, K, f) p(r | i)."""
    Q: Tensor
    """(M, K, f) p(j | r)."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        return lowrank.tiles(self.P, self.Q, source, target)

    def leaving(self, cluster: int) -> Tensor:
        M, K, _ = self.Q.shape
        return lowrank.finite_log(self.P[cluster], self.Q.flatten(0, 1).T).view(K, M, K)

    def kept(self) -> "LowRank":
        return self


class BlockLowRank(NamedTuple):
    """The same, with F features in each cluster."""

    P: Tensor
    """(M, M, K, F) p(r | i), from the states of one cluster to the features of another."""
    Q: Tensor
    """(M, F, K) p(j | r)."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        return lowrank.block_tiles(self.P, self.Q, source, target)

    def leaving(self, cluster: int) -> Tensor:
        return lowrank.finite_log(self.P[cluster], self.Q).transpose(0, 1)

    def kept(self) -> "BlockLowRank":
        return self


@models.register("lowrank_hmm")
class LowRankHMM(NeuralBlockHMM):
    """p(j | i) = φ(u_i)·φ(v_j) / φ(u_i)·Σ_k φ(v_k); otherwise the HMM of Chiu and Rush (2020), see `NeuralBlockHMM`.

    φ(x) = exp(Wx) or exp(Wx - ‖x‖²/(2d)), of which the expectation over rows of W from N(0, I/d) is a softmax:
    φ(u)·φ(v) ≈ f exp(u·v/d). W begins with orthogonal rows and is learned; u_i = Res_t(e_i), and v_j is the state's
    vector as destination. The published model has emissions of every word from every state, where this has a cluster's
    words from its own states.

    A walk through features is an HMM over them, with as many states as features (Yang, Liu and Tu, "Dynamic programming
    in rank space", NAACL 2022, https://aclanthology.org/2022.naacl-main.353): few features remember little. With a
    kernel p(r | i) ∝ φ_r(u_i) D_r depends on where the feature leads, D_r = Σ_k φ_r(v_k). Theirs does not, and no more
    does feature_map ``softmax`` here, p(j | i) = Σ_r p(r | i) p(j | r) with a softmax for each,

        p(r | i) ∝ exp(w_r·u_i),   p(j | r) ∝ exp(w′_r·v_j),

    and two vectors for a feature. It learns sooner.

    With ``block_features`` each feature belongs to a cluster, f/M to each, and leads to its states alone, which makes
    many of them affordable. State dropout then leaves Z/f states out together, and a feature with them, but at least
    one feature of a cluster in. Free vectors begin with every feature preferring those states.

    Args:
        features: f, at least the rank of the transition matrix.
        feature_map: ``exp`` or ``softmax_kernel``, φ without and with ‖x‖², or ``softmax``.
        block_features: whether φ_r(v_j) is 0 unless feature r and state j are of the same cluster.

    Raises:
        UserError: where block_features is set and features do not divide states, or are not a multiple of clusters.
    """

    inherited = (*NeuralBlockHMM.inherited, "feature_map", "block_features")
    divided = (*NeuralBlockHMM.divided, "features")

    def __init__(
        self,
        *,
        vocabulary_size: int,
        features: Size,
        feature_map: Literal["exp", "softmax_kernel", "softmax"],
        block_features: bool,
        **options: Unpack[NeuralBlockHMMOptions],
    ):
        super().__init__(vocabulary_size=vocabulary_size, **options)
        if block_features:
            shares = [self.clusters * share for share in range(1, self.size + 1) if self.size % share == 0]
            if features not in shares:
                raise UserError(
                    f"model.features={features} has to divide model.states={self.states} and be a multiple of "
                    f"model.clusters={self.clusters}, as model.block_features=true asks",
                    f"set it to one of {', '.join(map(str, shares))}",
                )
            self.together = self.states // features
        self.features, self.feature_map, self.block_features = features, feature_map, block_features
        self.feature_vectors = nn.Parameter(lowrank.orthogonal_rows(features, self.dim))
        if feature_map == "softmax":
            self.feature_targets = nn.Parameter(lowrank.orthogonal_rows(features, self.dim))
        if not self.factored:
            self._point_to_states()

    def add_transitions(self) -> None:
        self.transition = self.residual()
        self.add_destination(self.dim**-0.25)

    @property
    def targets(self) -> Tensor:
        """(f, d) w′_r, which but for ``softmax`` is w_r."""
        return self.feature_targets if self.feature_map == "softmax" else self.feature_vectors

    @torch.no_grad()
    def _point_to_states(self) -> None:
        """Have each feature lead to states of its own, nearly alike, or several to one where features are more.

        With all vectors random a feature leads anywhere, which takes long to unlearn. Rows of W are nearly orthogonal,
        so a state's vector has a large product with those alone that are added to it, as long as they are few.
        """
        f = len(self.targets)
        links = torch.arange(max(f, self.states))  # every state to a feature, every feature to a state
        state, feature = links * self.states // len(links), links * f // len(links)
        v = (self.origin if self.tied else self.destination).get_parameter("weight")
        v.index_add_(0, state, self.targets[feature], alpha=POINTING)

    def transitions(self, e: Tensor, states: Tensor) -> LowRank | BlockLowRank:
        v, W, targets = self.destinations(e, states), self.feature_vectors, self.targets
        if self.block_features:  # those whose states are kept
            kept = states[:, :: self.together] // self.together
            W, targets = W[kept].flatten(0, 1), targets[kept]  # (f, d), (M, F, d)
        origin = self.transition(e) @ W.T  # (M, K, f)
        destination = v @ targets.mT  # (M, K, F) or (M, K, f)
        if self.feature_map == "softmax_kernel":  # ‖u‖²/(2d) is the same for all features and cancels
            destination = destination - v.square().sum(2, keepdim=True) / (2 * self.dim)
        weighted = self.feature_map != "softmax"
        if self.block_features:
            return BlockLowRank(*lowrank.block_factors(origin, destination, weighted=weighted))
        return LowRank(*lowrank.factors(origin, destination, weighted=weighted))
