"""The very large HMM with a neural parameterisation (Chiu and Rush, EMNLP 2020).

https://aclanthology.org/2020.emnlp-main.103
"""

from typing import NamedTuple

from torch import Tensor, nn

from lmzoo.hmm import blocks
from lmzoo.models.block_hmm import BlockHMM, Residual
from lmzoo.registry import Dropout, Size, models


class Softmax(NamedTuple):
    """p(j | i) ∝ exp(u_i·v_j) over all states j."""

    U: Tensor
    """(M, K, d) vectors of the states as origin."""
    V: Tensor
    """(M, K, d) vectors of the states as destination."""
    normaliser: Tensor | None = None
    """(M, K) log Σ_j exp(u_i·v_j), where it is kept."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        if self.normaliser is None:
            return blocks.transition_tiles(self.U, self.V, source, target)
        return blocks.normalised_tiles(self.U, self.V, self.normaliser, source, target)

    def leaving(self, cluster: int) -> Tensor:
        M, K, _ = self.V.shape
        return blocks.whole(self.U[cluster] @ self.V.flatten(0, 1).T).log_softmax(1).view(K, M, K)

    def kept(self) -> "Softmax":
        return self._replace(normaliser=blocks.normaliser(self.U, self.V))


@models.register("vlhmm")
class VeryLargeHMM(BlockHMM):
    """The HMM of Chiu and Rush (2020): p(j | i) ∝ exp(Res_t(e_i)·e′_j) over all states j; see `BlockHMM`.

    The e′_j are drawn from N(0, 1/d): with the paper's N(0, 1) the transitions of a fresh model are all
    but deterministic, which takes hundreds of steps to unlearn.
    """

    def __init__(self, *, vocabulary_size: int, states: Size, clusters: Size, dim: Size, state_dropout: Dropout):
        super().__init__(
            vocabulary_size=vocabulary_size, states=states, clusters=clusters, dim=dim, state_dropout=state_dropout
        )
        self.transition = Residual(dim)
        self.destination = nn.Embedding(states, dim)
        nn.init.normal_(self.destination.weight, std=dim**-0.5)

    def transitions(self, e: Tensor, states: Tensor) -> Softmax:
        U = self.transition(e)
        return Softmax(U, self.destination(states).to(U.dtype))
