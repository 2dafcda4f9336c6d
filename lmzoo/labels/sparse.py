"""Features of words as numbers: which ones each word has, and sums over them."""

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


class Rows:
    """The features of N words: a matrix of zeros and ones, (N, F), by the columns of its ones.

    Attributes:
        columns: (M,) int32, the features of one word after the other.
        begins: (N,) int32, where those of each word begin.
    """

    def __init__(self, columns: Tensor, begins: Tensor):
        self.columns, self.begins = columns, begins

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> "Rows":
        """From the features of each word."""
        columns, begins = [], []
        for row in rows:
            begins.append(len(columns))
            columns += row
        return cls(torch.tensor(columns, dtype=torch.int32), torch.tensor(begins, dtype=torch.int32))

    def to(self, device: torch.device) -> "Rows":
        """The same on a device."""
        return Rows(self.columns.to(device), self.begins.to(device))

    def owners(self) -> Tensor:
        """(M,) the word that each of ``columns`` is of."""
        ends = torch.cat([self.begins[1:], self.begins.new_tensor([len(self.columns)])])
        return torch.arange(len(self.begins), device=self.begins.device).repeat_interleave((ends - self.begins).long())

    def transposed(self, features: int) -> "Rows":
        """The words of F features."""
        order = self.columns.argsort(stable=True)
        sizes = torch.bincount(self.columns, minlength=features)
        return Rows(self.owners()[order].int(), (sizes.cumsum(0) - sizes).int())

    def times(self, weights: Tensor, ones: Tensor | None = None) -> Tensor:
        """(F, K) weights -> (N, K), the sum of the weights of each word's features.

        Args:
            ones: (M,) what stands in the matrix in place of its ones.
        """
        return F.embedding_bag(self.columns, weights, self.begins, mode="sum", per_sample_weights=ones)
