"""Sparse matrices: those of PyTorch, and `SparseRows`, whose products are sums of few rows of a dense one."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


@contextmanager
def _without_warnings() -> Iterator[None]:
    """PyTorch 2.11 warns of unchecked invariants even where check_invariants is given (its issue 178274)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support is in beta|invariant checks are implicitly dis)")
        yield


@_without_warnings()
def coo(row: Tensor, column: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse matrix from the (P,) row, column and value of each number, by rows and then columns."""
    places = torch.stack([row, column])
    return torch.sparse_coo_tensor(places, values, shape, is_coalesced=True, check_invariants=False)


@_without_warnings()
def csr(starts: Tensor, column: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse matrix from where the numbers of each of m rows start, (m + 1,), and the (P,) columns and values."""
    return torch.sparse_csr_tensor(starts, column, values, shape, check_invariants=False)


@_without_warnings()
def by_rows(matrix: Tensor) -> Tensor:
    """A `coo` matrix, or the transpose of a `csr`, as `csr`, which multiplies dense blocks several times as fast."""
    return matrix.to_sparse_csr()


class SparseRows(NamedTuple):
    """An (N, F) matrix by the M numbers that are not 0."""

    columns: Tensor
    """(M,) the column of each, one row after another."""
    begins: Tensor
    """(N,) of the same type; where those of each row begin."""
    width: int
    """F."""
    values: Tensor | None = None
    """(M,) the numbers; None where all are 1."""

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]], width: int) -> "SparseRows":
        """Zeros and ones, from the columns of each row's ones."""
        columns, begins = [], []
        for row in rows:
            begins.append(len(columns))
            columns += row
        return cls(torch.tensor(columns, dtype=torch.int32), torch.tensor(begins, dtype=torch.int32), width)

    @property
    def shape(self) -> tuple[int, int]:
        """N and F."""
        return len(self.begins), self.width

    def owners(self) -> Tensor:
        """(M,) the row of each number."""
        ends = torch.cat([self.begins[1:], self.begins.new_tensor([len(self.columns)])])
        return torch.arange(len(self.begins), device=self.begins.device).repeat_interleave((ends - self.begins).long())

    @property
    def mT(self) -> "SparseRows":  # noqa: N802 - torch's name
        """The (F, N) transpose."""
        order = self.columns.argsort(stable=True)
        sizes = torch.bincount(self.columns, minlength=self.width)
        begins = (sizes.cumsum(0) - sizes).to(self.begins)
        values = None if self.values is None else self.values[order]
        return SparseRows(self.owners()[order].to(self.columns), begins, len(self.begins), values)

    def __matmul__(self, dense: Tensor) -> Tensor:
        """(F,) or (F, K) -> (N,) or (N, K)."""
        if dense.ndim == 1:
            return (self @ dense[:, None])[:, 0]
        if not len(self.columns):
            return dense.new_zeros(len(self.begins), dense.shape[1])
        return F.embedding_bag(self.columns, dense, self.begins, mode="sum", per_sample_weights=self.values)


def ranges(first: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers first, first + 1, … of N ranges of so many each, both (N,) int64.

    Ranges from 4 and 0 of 2 and 3 numbers give ranges 0 0 1 1 1 and numbers 4 5 0 1 2.

    Returns: (M,) which range each number is of, and (M,) the numbers.
    """
    which = torch.arange(len(count), device=count.device).repeat_interleave(count)
    return which, torch.arange(len(which), device=count.device) + (first - count.cumsum(0) + count)[which]


def grouped(group: Tensor, groups: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """(N,) group of each thing -> the things group by group, the groups' sizes, and each thing's place in its group."""
    order = group.argsort(stable=True)
    sizes = group.bincount(minlength=groups)
    return order, sizes, order.argsort() - (sizes.cumsum(0) - sizes)[group]
