"""The leading singular values and vectors of a large matrix, of which only products are computed.

Both ways begin with a random block. `truncated_svd` keeps the blocks of all iterations: the fewest products for
hundreds of vectors, of which those of a plot or a search need few digits. It takes values from their squares, so half
the digits are lost. `randomised_svd` keeps the last block alone and needs about the memory of its result. It takes
values without squares, so those near 1e-12 of the largest still tell the rank of a matrix of float64.
"""

from typing import Protocol

import torch
from torch import Tensor

from lmzoo.numerics.sparse import by_rows


class Operator(Protocol):
    """A matrix as something to multiply with."""

    def __matmul__(self, X: Tensor, /) -> Tensor: ...

    @property
    def mT(self) -> "Operator": ...  # noqa: N802 - torch's name


WIDTH, BLOCKS = 0.25, 9
"""Of the Krylov space: columns of a block, as a share of the rank, and blocks."""
POWER_ITERATIONS = 3


def randomised_svd(H: Operator, start: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """The leading singular values and vectors of an operator, from a (columns, rank or more) Gaussian ``start``.

    Halko, Martinsson & Tropp, *Finding structure with randomness*, SIAM Review 2011, algorithm 4.4.

    Returns: U (rows, rank), S (rank,) descending, V (columns, rank).
    """
    Q = torch.linalg.qr(H @ start)[0]
    for _ in range(POWER_ITERATIONS):
        Q = torch.linalg.qr(H @ torch.linalg.qr(H.mT @ Q)[0])[0]
    V, R = torch.linalg.qr(H.mT @ Q)  # H ≈ Q (QᵀH) = Q Rᵀ Vᵀ
    left, S, right = torch.linalg.svd(R.mT)
    return Q @ left[:, :rank], S[:rank], V @ right.mT[:, :rank]


def truncated_svd(matrix: Tensor, rank: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """(m, n) sparse M ≈ U diag(S) Vᵀ -> (m, r) U, (r,) S, (n, r) V with r = min(rank, m, n).

    Musco & Musco, *Randomized block Krylov methods for stronger and faster approximate singular value decomposition*,
    NIPS 2015, algorithm 2.

    Q is an orthonormal basis of [M X, M Mᵀ M X, (M Mᵀ)² M X, …] for a random X. The SVD of QᵀM gives that of M. Where
    that basis would be whole, M is decomposed as a dense matrix.
    """
    most = min(matrix.shape)
    rank = min(rank, most)
    width = max(8, int(WIDTH * rank))
    if most <= max(rank, BLOCKS * width):
        U, S, V = torch.linalg.svd(matrix.to_dense(), full_matrices=False)
        return U[:, :rank], S[:rank], V.mT[:, :rank]
    forth = by_rows(matrix)
    back = by_rows(forth.mT)
    Q, B = torch.zeros(len(matrix), 0), torch.zeros(len(back), 0)
    block = forth @ torch.randn(len(back), width, generator=random)
    while Q.shape[1] < max(rank, BLOCKS * width):
        for _ in range(3):  # the first leaves rounding errors
            block = torch.linalg.qr(block - Q @ (Q.mT @ block)).Q
        if float((Q.mT @ block).norm()) > 1e-3:  # in place of what Q has already, there may be anything
            block = torch.linalg.qr(torch.cat([Q, block], 1)).Q[:, Q.shape[1] :]
        reached = back @ block  # Mᵀ block
        Q, B = torch.cat([Q, block], 1), torch.cat([B, reached], 1)
        block = forth @ reached
    values, vectors = torch.linalg.eigh((B.mT @ B).double())  # of the small matrix, smallest first
    S, vectors = values.clamp(min=0).sqrt().flip(0)[:rank].float(), vectors.flip(1)[:, :rank].float()
    return Q @ vectors, S, B @ vectors / S.clamp(min=1e-6 * float(S[0]) or 1.0)
