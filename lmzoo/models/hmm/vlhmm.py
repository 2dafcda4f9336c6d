"""The very large HMM with a neural parameterisation (Chiu and Rush, EMNLP 2020).

https://aclanthology.org/2020.emnlp-main.103
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.options import configured
from lmzoo.models.hmm.block_hmm import BlockHMM, BlockHMMOptions, BlockTables
from lmzoo.models.hmm.inference.emissions import within_cluster
from lmzoo.models.hmm.inference.tiles import normalised_tiles, normaliser, transition_tiles
from lmzoo.models.hmm.neural_distributions import NeuralDistributions, NeuralTransitions
from lmzoo.numerics.gpu_sync import to_device_async
from lmzoo.numerics.precision import at_least_float32
from lmzoo.protocol.model import models


class Softmax(NamedTuple):
    """p(j | i) ∝ exp(u_i·v_j) over all states j."""

    U: Tensor
    """(M, K, d) vectors of the states as origin."""
    V: Tensor
    """(M, K, d) vectors of the states as destination."""
    total: Tensor | None = None
    """(M, K) log Σ_j exp(u_i·v_j), where it is computed ahead of the tiles."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        if self.total is None:
            return transition_tiles(self.U, self.V, source, target)
        return normalised_tiles(self.U, self.V, self.total, source, target)

    def leaving(self, cluster: int) -> Tensor:
        M, K, _ = self.V.shape
        return at_least_float32(self.U[cluster] @ self.V.flatten(0, 1).T).log_softmax(1).view(K, M, K)


class SoftmaxTransitions(NeuralTransitions):
    """p(j | i) ∝ exp(Res_t(e_i)·v_j) over all states j."""

    def __init__(self, options: BlockHMMOptions, origin: nn.Module):
        super().__init__(options, origin, options.dim**-0.5)

    def forward(self, e: Tensor, v: Tensor, states: Tensor) -> Softmax:
        return Softmax(self.transition(e), v)

    def logprobs(self, e: Tensor, v: Tensor, source: Tensor, target: Tensor) -> Tensor:
        u, v = self.transition(e), v.flatten(0, 1)
        products = F.embedding(source, u) * F.embedding(target, v)
        return at_least_float32(products.sum(1)) - at_least_float32(u @ v.T).logsumexp(1)[source]


class Tabulated(NamedTuple):
    """p(j | i) from a table."""

    table: Tensor
    """(M, K, M, K) log p(j | i)."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        source, target = (to_device_async(clusters, self.table.device) for clusters in (source, target))
        return self.table[source, :, target]

    def leaving(self, cluster: int) -> Tensor:
        return self.table[cluster]


class TableDistributions(nn.Module):
    """Every start, transition and emission probability has a logit of its own, at first drawn from N(0, 1)."""

    def __init__(self, vocabulary_size: int, options: BlockHMMOptions):
        super().__init__()
        Z, self.size = options.states, options.states // options.clusters
        self.start = nn.Parameter(torch.randn(Z))
        self.transition = nn.Parameter(torch.randn(Z, Z))
        self.emission = nn.Parameter(torch.randn(vocabulary_size, self.size))

    def forward(self, states: Tensor, cluster: Tensor) -> tuple[Tensor, Tensor, Tabulated]:
        flat = states.flatten()
        start = self.start[flat].log_softmax(0).view(states.shape)
        transition = self.transition[flat[:, None], flat].log_softmax(1).view(*states.shape, *states.shape)
        emission = within_cluster(self.emission.gather(1, (states % self.size)[cluster]), cluster)
        return start, emission, Tabulated(transition)


class VeryLargeHMMOptions(BlockHMMOptions):
    parameterisation: Literal["neural", "table"] = "neural"
    """how probabilities are parameterized: by networks, or by a table with a logit for each, Z² for transitions."""


@models.register("vlhmm")
class VeryLargeHMM(BlockHMM):
    """The HMM of Chiu and Rush (2020), or, for comparison, one whose parameters are tables.

    Raises: UserError where a table has a parent or is distilled.
    """

    same_as_parent = (*BlockHMM.same_as_parent, "parameterisation")

    @configured(VeryLargeHMMOptions)
    def __init__(self, vocabulary_size: int, options: VeryLargeHMMOptions):
        super().__init__(vocabulary_size, options)
        if options.parameterisation == "neural":
            self.distributions = NeuralDistributions(vocabulary_size, options, SoftmaxTransitions)
            return
        for option, run in (("parent", options.parent), ("distilled_from", options.distilled_from)):
            if run is not None:
                raise UserError(f"model.{option}={run}: a table has no state vectors", "set it to null")
        self.distributions = TableDistributions(vocabulary_size, options)

    def lasting_tables(self) -> BlockTables:
        """The tables with normalisers of softmaxes, which are computed once for all tiles."""
        tables = self.tables()
        if isinstance(softmax := tables.transitions, Softmax):
            return tables._replace(transitions=softmax._replace(total=normaliser(softmax.U, softmax.V)))
        return tables
