"""Products of the vectors of words with those of the words around them. B blocks, T words, L words on either side.

The words of a block are beside T + 2L places, the block and its surroundings: place i + k is the word i itself for
k = L. So what concerns pairs of a word and a place near it is a tensor (B, T, 2L + 1).
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.numerics.sparse import csr


@dataclass(frozen=True)
class Band:
    """Sparse matrices of a row for each word and a column for each place, with entries at the places near the word.

    Attributes:
        shape: B, T and L.
        empty: sparse (B T, B (T + 2L)), whose entries are 0.
        place: (B T, 2L + 1) columns of a row's entries.
        word: (B (T + 2L), 2L + 1) rows of a column's entries; any row where the word is not in the block.
    """

    shape: tuple[int, int, int]
    empty: Tensor
    place: Tensor
    word: Tensor

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, B: int, T: int, L: int, device: torch.device) -> "Band":
        U, k, block = T + 2 * L, torch.arange(2 * L + 1), torch.arange(B)[:, None, None]
        place = (block * U + torch.arange(T)[:, None] + k).flatten(0, 1)
        word = (block * T + (torch.arange(U)[:, None] + k - 2 * L).clamp(0, T - 1)).flatten(0, 1)
        starts = torch.arange(0, place.numel() + 1, 2 * L + 1)
        empty = csr(starts, place.flatten(), torch.zeros(place.numel()), (B * T, B * U))
        return cls((B, T, L), empty.to(device), place.to(device), word.to(device))

    def dots(self, w: Tensor, c: Tensor) -> Tensor:
        """(B, T, d), (B, T + 2L, d) -> (B, T, 2L + 1) scalar products of words and places."""
        B, T, L = self.shape
        products = torch.sparse.sampled_addmm(self.empty.to(w.dtype), w.flatten(0, 1), c.flatten(0, 1).mT, beta=0)
        return products.values().view(B, T, 2 * L + 1)

    def to_words(self, weights: Tensor, c: Tensor) -> Tensor:
        """(B, T, 2L + 1), (B, T + 2L, d) -> (B, T, d) Σ_k weights[i, k] c[i + k]."""
        return _sums(self.place, weights, c).view(len(c), -1, c.shape[-1])

    def to_places(self, weights: Tensor, w: Tensor) -> Tensor:
        """(B, T, 2L + 1), (B, T, d) -> (B, T + 2L, d) Σ_k weights[u - k, k] w[u - k]."""
        B, T, L = self.shape
        rows = F.pad(weights.flip(2), (0, 0, 2 * L, 2 * L))  # of k' = 2L - k and i + 2L
        by_place = rows.as_strided((B, T + 2 * L, 2 * L + 1), (rows.stride(0), rows.stride(1), rows.stride(1) + 1))
        return _sums(self.word, by_place, w).view(B, -1, w.shape[-1])


def _sums(rows: Tensor, weights: Tensor, table: Tensor) -> Tensor:
    """Sums of rows of a table: (N, K) which, and how much each counts."""
    return F.embedding_bag(rows, table.flatten(0, 1), mode="sum", per_sample_weights=weights.reshape(rows.shape))
