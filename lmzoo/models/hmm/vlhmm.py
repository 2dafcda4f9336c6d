"""The very large HMM with a neural parameterisation (Chiu and Rush, EMNLP 2020).

https://aclanthology.org/2020.emnlp-main.103
"""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from lmzoo.core.options import configured
from lmzoo.models.hmm.block_hmm import BlockHMM, BlockHMMOptions, BlockTables
from lmzoo.models.hmm.inference.tiles import normalised_tiles, normaliser, transition_tiles
from lmzoo.models.hmm.neural_distributions import NeuralDistributions, NeuralTransitions
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

    def forward(self, e: Tensor, v: Tensor, states: Tensor) -> Softmax:
        return Softmax(self.transition(e), v)

    def logprobs(self, e: Tensor, v: Tensor, source: Tensor, target: Tensor) -> Tensor:
        u, v = self.transition(e), v.flatten(0, 1)
        products = F.embedding(source, u) * F.embedding(target, v)
        return at_least_float32(products.sum(1)) - at_least_float32(u @ v.T).logsumexp(1)[source]


@models.register("vlhmm")
class VeryLargeHMM(BlockHMM):
    """The HMM of Chiu and Rush (2020)."""

    @configured(BlockHMMOptions)
    def __init__(self, vocabulary_size: int, options: BlockHMMOptions):
        super().__init__(vocabulary_size, options)
        self.distributions = NeuralDistributions(vocabulary_size, options, SoftmaxTransitions)

    def lasting_tables(self) -> BlockTables:
        """The tables with normalisers of softmaxes, which are computed once for all tiles."""
        tables = self.tables()
        softmax = tables.transitions
        assert isinstance(softmax, Softmax)
        return tables._replace(transitions=softmax._replace(total=normaliser(softmax.U, softmax.V)))
