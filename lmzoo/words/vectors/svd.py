"""The leading singular vectors of a large sparse matrix.

Musco & Musco, *Randomized block Krylov methods for stronger and faster approximate singular value decomposition*, NIPS
2015, algorithm 2.
"""

import warnings

import torch
from torch import Tensor

WIDTH, BLOCKS = 0.25, 9
"""Of the Krylov space: columns of a block, as a share of the rank, and blocks."""


def sparse_matrix(row: Tensor, column: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """(P,) rows, columns and values in the order of rows and then columns -> a sparse matrix."""
    places = torch.stack([row, column])
    return torch.sparse_coo_tensor(places, values, shape, is_coalesced=True, check_invariants=False)


def transposed(matrix: Tensor) -> Tensor:
    """A sparse matrix's transpose, in the order that makes products fast."""
    row, column = matrix.indices()
    order = column.argsort(stable=True)
    return sparse_matrix(column[order], row[order], matrix.values()[order], (matrix.shape[1], matrix.shape[0]))


def by_rows(matrix: Tensor) -> Tensor:
    """The same matrix, compressed by rows (CSR), which multiplies dense blocks several times as fast."""
    row, column = matrix.indices()
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), row.bincount(minlength=len(matrix)).cumsum(0)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(starts, column, matrix.values(), matrix.shape, check_invariants=False)


def truncated_svd(matrix: Tensor, rank: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """(m, n) sparse M ≈ U diag(S) Vᵀ -> (m, r) U, (r,) S, (n, r) V with r = min(rank, m, n).

    Q is an orthonormal basis of [M X, M Mᵀ M X, (M Mᵀ)² M X, …] for a random X. The SVD of QᵀM gives that of M. Where
    that basis would be whole, M is decomposed as a dense matrix.
    """
    most = min(matrix.shape)
    rank = min(rank, most)
    width = max(8, int(WIDTH * rank))
    if most <= max(rank, BLOCKS * width):
        U, S, V = torch.linalg.svd(matrix.to_dense(), full_matrices=False)
        return U[:, :rank], S[:rank], V.mT[:, :rank]
    forth, back = by_rows(matrix), by_rows(transposed(matrix))
    Q, B = torch.zeros(len(matrix), 0), torch.zeros(len(back), 0)
    block = forth @ torch.randn(len(back), width, generator=random)
    while Q.shape[1] < max(rank, BLOCKS * width):
        for _ in range(3):  # the first leaves rounding errors, and anything in place of what Q has already
            block = torch.linalg.qr(block - Q @ (Q.mT @ block)).Q
        reached = back @ block  # Mᵀ block
        Q, B = torch.cat([Q, block], 1), torch.cat([B, reached], 1)
        block = forth @ reached
    values, vectors = torch.linalg.eigh((B.mT @ B).double())  # of the small matrix, smallest first
    S, vectors = values.clamp(min=0).sqrt().flip(0)[:rank].float(), vectors.flip(1)[:, :rank].float()
    return Q @ vectors, S, B @ vectors / S.clamp(min=1e-6 * float(S[0]))
