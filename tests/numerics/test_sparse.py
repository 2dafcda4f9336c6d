"""Products of sparse matrices by their rows, and ranges, against dense ones and Python's."""

import pytest
import torch
from torch import Tensor

from lmzoo.numerics.sparse import SparseRows, by_rows, coo, ranges

COLUMNS = [[2, 0], [], [1, 1, 3], [], [3]]
"""Of five rows of a matrix of six columns; the third has a column twice, and no row has the last two."""


def table(values: Tensor | None) -> Tensor:
    dense, numbers = torch.zeros(5, 6), iter([1] * 6 if values is None else values.tolist())
    for row, columns in enumerate(COLUMNS):
        for column in columns:
            dense[row, column] += next(numbers)
    return dense


@pytest.mark.parametrize("values", [None, torch.tensor([1.0, 2, 3, 4, 5, 6])])
def test_rows_multiply_as_the_dense_matrix(values: Tensor | None):
    rows, dense = SparseRows.of(COLUMNS, 6)._replace(values=values), table(values)
    W = torch.arange(18.0).view(6, 3)
    assert rows.shape == (5, 6)
    assert torch.equal(rows @ W, dense @ W)
    assert torch.equal(rows @ W[:, 0], dense @ W[:, 0])
    assert torch.equal(rows.mT @ W[:5], dense.mT @ W[:5])
    assert torch.equal(rows.mT.mT @ W, dense @ W)


def test_rows_without_numbers_multiply_to_zero():
    assert torch.equal(SparseRows.of([[], []], 0) @ torch.zeros(0, 3), torch.zeros(2, 3))
    assert torch.equal(SparseRows.of([[], []], 4).mT @ torch.ones(2), torch.zeros(4))


def test_a_sparse_matrix_by_rows_and_its_transpose_are_the_dense_ones():
    dense = table(None)
    row, column = dense.nonzero(as_tuple=True)
    matrix = coo(row, column, dense[row, column], (5, 6))
    assert torch.equal(by_rows(matrix).to_dense(), dense)
    assert torch.equal(by_rows(by_rows(matrix).mT).to_dense(), dense.mT)


def test_ranges_are_those_of_python():
    first, count = [4, 0, 7, 2], [2, 3, 0, 1]
    which, numbers = ranges(torch.tensor(first), torch.tensor(count))
    expected = [(i, k) for i, (a, n) in enumerate(zip(first, count, strict=True)) for k in range(a, a + n)]
    assert list(zip(which.tolist(), numbers.tolist(), strict=True)) == expected
