"""Both decompositions against the dense one."""

import numpy as np
import pytest
import torch

from lmzoo.numerics.sparse import coo
from lmzoo.numerics.svd import randomised_svd, truncated_svd


def random_matrix(rows: int, columns: int) -> torch.Tensor:
    dense = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1))
    return torch.where(dense > 0.8, dense, 0) @ torch.diag(0.9 ** torch.arange(columns)) + 0


@pytest.mark.parametrize(("shape", "rank"), [((60, 40), 10), ((30, 50), 30), ((8, 5), 9)])
def test_the_decomposition_is_numpys(shape, rank):
    dense = random_matrix(*shape)
    row, column = dense.nonzero(as_tuple=True)
    M = coo(row, column, dense[row, column], shape)
    U, S, V = truncated_svd(M, rank, torch.Generator().manual_seed(0))
    u, s, vh = np.linalg.svd(dense.double().numpy(), full_matrices=False)
    rank = min(rank, *shape)
    np.testing.assert_allclose(S.numpy(), s[:rank], rtol=1e-3, atol=1e-3)
    best = (u[:, :rank] * s[:rank]) @ vh[:rank]
    np.testing.assert_allclose((U * S @ V.mT).numpy(), best, atol=2e-3)
    torch.testing.assert_close(U.mT @ U, torch.eye(rank), atol=1e-4, rtol=0)


@pytest.mark.parametrize(("size", "rank"), [(9, 9), (300, 20)])
def test_a_matrix_of_lower_rank_is_decomposed(size: int, rank: int):
    random = torch.Generator().manual_seed(1)
    dense = torch.randn(size, 5, generator=random) @ torch.randn(5, size, generator=random)
    U, S, V = truncated_svd(dense.to_sparse(), rank, random)
    torch.testing.assert_close(U * S @ V.mT, dense, atol=1e-3, rtol=0)
    torch.testing.assert_close(U.mT @ U, torch.eye(rank), atol=1e-4, rtol=0)


@pytest.mark.parametrize("rank", [0, 5])
def test_a_sparse_matrix_of_far_lower_rank_has_its_own_values(rank: int):
    at, values = torch.arange(rank), 1 + torch.rand(rank, generator=torch.Generator().manual_seed(0))
    U, S, V = truncated_svd(coo(at, at, values, (100, 100)), 10, torch.Generator().manual_seed(0))
    expected = torch.cat([values.sort(descending=True).values, torch.zeros(10 - rank)])
    torch.testing.assert_close(S, expected, atol=1e-3, rtol=0)
    torch.testing.assert_close(U.mT @ U, torch.eye(10), atol=1e-4, rtol=0)
    assert V.isfinite().all()


def test_randomised_svd_against_the_dense_one():
    random = torch.Generator().manual_seed(1)
    H = torch.randn(60, 50, dtype=torch.float64, generator=random) @ torch.diag(0.6 ** torch.arange(50.0).double())
    U, S, V = randomised_svd(H, torch.randn(50, 15, dtype=torch.float64, generator=torch.Generator().manual_seed(0)), 5)
    torch.testing.assert_close(S, torch.linalg.svdvals(H)[:5], rtol=1e-8, atol=0)
    torch.testing.assert_close(H @ V, U * S, rtol=1e-8, atol=1e-8)
