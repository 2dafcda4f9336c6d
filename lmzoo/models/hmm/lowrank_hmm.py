"""The HMM with transitions of low rank (Chiu, Deng and Rush, NeurIPS 2021); https://arxiv.org/abs/2201.02715"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.options import Size, configured
from lmzoo.models.hmm.block_hmm import BlockHMM, BlockHMMOptions, BlockTables
from lmzoo.models.hmm.inference import lowrank
from lmzoo.models.hmm.inference.chains import FactoredChain
from lmzoo.models.hmm.inference.underflow import log_product
from lmzoo.models.hmm.neural_distributions import NeuralDistributions, NeuralTransitions
from lmzoo.numerics.precision import at_least_float32
from lmzoo.protocol.abilities import HiddenChain
from lmzoo.protocol.model import models

POINTING = 8.0
"""By how much the logit of a fresh feature is larger for its own states than for others, about."""


class LowRank(NamedTuple):
    """p(j | i) = Σ_r p(r | i) p(j | r)."""

    P: Tensor
    """(M, K, f) log p(r | i)."""
    Q: Tensor
    """(M, K, f) log p(j | r)."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        return lowrank.tiles(self.P, self.Q, source, target)

    def leaving(self, cluster: int) -> Tensor:
        M, K, _ = self.Q.shape
        return log_product(self.P[cluster], self.Q.flatten(0, 1).T).view(K, M, K)


class BlockLowRank(NamedTuple):
    """p(j | i) = Σ_r p(r | i) p(j | r) over the F features r of j's cluster."""

    P: Tensor
    """(M, M, K, F) log p(r | i), from the states of one cluster to the features of another."""
    Q: Tensor
    """(M, F, K) log p(j | r)."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        return lowrank.block_tiles(self.P, self.Q, source, target)

    def leaving(self, cluster: int) -> Tensor:
        return log_product(self.P[cluster], self.Q).transpose(0, 1)


class LowRankHMMOptions(BlockHMMOptions):
    features: Size = 256
    """f, the maximum rank of the transition matrix. With block_features a divisor of states."""
    feature_map: Literal["exp", "softmax_kernel", "softmax"] = "exp"
    """φ. exp: exp(Wx). softmax_kernel: exp(Wx - ‖x‖²/(2d)). softmax: no φ, p(r | i) and p(j | r) are softmaxes."""
    block_features: bool = False
    """whether each cluster has its own features, which lead only to its states and are dropped with them: φ_r(v_j) is 0
    unless feature r and state j belong to the same cluster."""


class LowRankTransitions(NeuralTransitions):
    """The transitions of `LowRankHMM`."""

    power = -0.25

    def __init__(self, options: LowRankHMMOptions, origin: nn.Module):
        super().__init__(options, origin)
        f, M, Z = options.features, options.clusters, options.states
        if options.block_features:
            shares = [M * share for share in range(1, Z // M + 1) if Z // M % share == 0]
            if f not in shares:
                raise UserError(
                    f"model.features={f} has to divide model.states={Z} and be a multiple of model.clusters={M}, as "
                    "model.block_features=true asks",
                    f"set it to one of {', '.join(map(str, shares))}",
                )
            self.group_size = Z // f
        self.dim, self.states, self.block_features = options.dim, Z, options.block_features
        self.feature_map = options.feature_map
        self.weighted = self.feature_map != "softmax"
        """Whether p(r | i) depends on where r leads, as it does with a kernel."""
        self.feature_vectors = nn.Parameter(lowrank.orthogonal_rows(f, self.dim))
        if self.feature_map == "softmax":
            self.feature_targets = nn.Parameter(lowrank.orthogonal_rows(f, self.dim))
        if options.embeddings == "free":
            self.point_to_states(self.destinations.vectors or origin)

    @property
    def targets(self) -> Tensor:
        """(f, d) w′_r for ``softmax``, and w_r for kernels."""
        return self.feature_targets if self.feature_map == "softmax" else self.feature_vectors

    @torch.no_grad()
    def point_to_states(self, vectors: nn.Module) -> None:
        """Let each feature lead to states of its own; with random vectors, training would need long to learn that.

        Rows of W are nearly orthogonal, so the vector of a state has large products with just the few rows that are
        added to it. Features in excess of states share them. An example, Z = 6 states z and f = 3 features r::

            z    0 1 2 3 4 5
            r    0 0 1 1 2 2
        """
        f = len(self.targets)
        links = torch.arange(max(f, self.states))
        z, r = links * self.states // len(links), links * f // len(links)
        vectors.get_parameter("weight").index_add_(0, z, self.targets[r], alpha=POINTING)

    def forward(self, e: Tensor, v: Tensor, states: Tensor) -> LowRank | BlockLowRank:
        origin, destination = self.feature_logits(e, v, states)
        if self.block_features:
            return BlockLowRank(*lowrank.block_factors(origin, destination, weighted=self.weighted))
        return LowRank(*lowrank.factors(origin, destination, weighted=self.weighted))

    def logprobs(self, e: Tensor, v: Tensor, source: Tensor, target: Tensor) -> Tensor:
        states = torch.arange(self.states, device=v.device).view(v.shape[:2])
        origin, destination = self.feature_logits(e, v, states)  # (n, f), (M, S, F)
        features = destination if self.block_features else destination.flatten(0, 1)[None]  # which share a softmax
        P = lowrank.origin_factor(origin, features, weighted=self.weighted)
        Q = at_least_float32(features).log_softmax(1).flatten(0, 1)  # (Z, F)
        if self.block_features:
            M, S = v.shape[:2]
            P, source = P.view(-1, Q.shape[1]), source * M + target // S
        return (F.embedding(source, P) + F.embedding(target, Q)).logsumexp(1)

    def feature_logits(self, e: Tensor, v: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """(…, f) log φ(u) of (…, d) e, and log φ(v) of (M, K) states: (M, K, f), or (M, K, F) with block_features."""
        W, targets = self.feature_vectors, self.targets
        if self.block_features:  # features of left-out states are left out, too
            active = states[:, :: self.group_size] // self.group_size
            W, targets = W[active].flatten(0, 1), targets[active]  # (f, d), (M, F, d)
        origin = self.transition(e) @ W.T  # (…, f)
        destination = v @ targets.mT  # (M, K, F) or (M, K, f)
        if self.feature_map == "softmax_kernel":  # ‖u‖²/(2d) is the same for all features, so it cancels
            destination = destination - v.square().sum(2, keepdim=True) / (2 * self.dim)
        return origin, destination


@models.register("lowrank_hmm")
class LowRankHMM(BlockHMM):
    """p(j | i) = φ(u_i)·φ(v_j) / φ(u_i)·Σ_k φ(v_k). For the rest see `NeuralDistributions`.

    φ(x) is exp(Wx) or exp(Wx - ‖x‖²/(2d)). With the latter the model approximates a softmax: if the rows of W are drawn
    from N(0, I/d), the expectation of φ(u)·φ(v) is f exp(u·v/d). W begins with orthogonal rows and is learnt.
    u_i = Res_t(e_i), and v_j is the state's vector as destination. In the published model every state emits every word;
    here a state emits the words of its own cluster alone.

    A transition goes from a state to a feature, and on to a state, so the model is also an HMM with features as its
    states (Yang, Liu and Tu, "Dynamic programming in rank space", NAACL 2022,
    https://aclanthology.org/2022.naacl-main.353), and few features remember little. With a kernel, p(r | i) depends on
    where the feature leads (`lmzoo.models.hmm.inference.lowrank`). In the model of Yang et al. it does not, nor with
    feature_map ``softmax`` here, which learns faster: p(r | i) ∝ exp(w_r·u_i) and p(j | r) ∝ exp(w′_r·v_j).

    With ``block_features`` every cluster has f/M features, which lead to the states of that cluster alone. This makes
    many features affordable. Each feature then has Z/f states of its own. State dropout leaves them out together, and
    the feature with them, and keeps at least one feature of each cluster. With free vectors every feature at first
    prefers its own states.

    Raises: UserError where block_features is set, and features do not divide states or are not a multiple of clusters.
    """

    same_as_parent = (*BlockHMM.same_as_parent, "feature_map", "block_features")
    multiples_of_parent = (*BlockHMM.multiples_of_parent, "features")

    @configured(LowRankHMMOptions)
    def __init__(self, vocabulary_size: int, options: LowRankHMMOptions):
        super().__init__(vocabulary_size, options)
        self.distributions = NeuralDistributions(vocabulary_size, options, LowRankTransitions)
        if options.block_features:
            self.group_size = options.states // options.features

    def hidden_chain(self) -> HiddenChain:
        tables: BlockTables = self.current_tables()
        if isinstance(factors := tables.transitions, LowRank):
            return FactoredChain(tables, self.cluster, factors.P, factors.Q)
        return super().hidden_chain()
