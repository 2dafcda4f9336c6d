"""The losses of word2vec with their gradients, for blocks of words. B blocks, T words, S draws of noise, d dimensions.

Σ over a block in nats; every function returns the loss and its gradient with respect to its vectors. The gradient does
not need the loss, whose logarithms take long: it is 0 unless ``measured``.
"""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.numerics.sparse import csr


@dataclass(frozen=True)
class Band:
    """Products of the vectors of words with those of the words around them, L on either side.

    The words of a block are beside T + 2L places, the block and its surroundings: place i + k is word i itself for
    k = L. Pairs of a word and a place near it are a tensor (B, T, 2L + 1), entries of sparse matrices.

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


def skipgram(
    w: Tensor, c: Tensor, n: Tensor, near: Tensor, k: float, measured: bool = True
) -> tuple[float, Tensor, Tensor, Tensor]:
    """-Σ_ij P_ij log σ(w_i · c_{i+j}) - (k/S) Σ_i P_i Σ_s log σ(-w_i · n_s), P_i = Σ_j P_ij.

    Args:
        w: (B, T, d) vectors of the words.
        c: (B, T + 2L, d) of the words and those on either side.
        n: (B, S, d) of the noise.
        near: (B, T, 2L + 1) P, 1 for the contexts of a word or 0.
        k: negative samples of a pair.
    """
    band = Band.of(*w.shape[:2], near.shape[2] // 2, w.device)
    products = torch.sparse.sampled_addmm(band.empty.to(w.dtype), w.flatten(0, 1), c.flatten(0, 1).mT, beta=0)
    positive, negative = products.values().view(near.shape), w @ n.mT  # (B, T, 2L + 1), (B, T, S)
    weight = near.sum(2, keepdim=True) * (k / n.shape[1])
    loss = measured and -(near * F.logsigmoid(positive)).sum() - (weight * F.logsigmoid(-negative)).sum()
    push = positive.sigmoid_().sub_(1).mul_(near)  # d loss / d positive
    pull = negative.sigmoid_().mul_(weight)
    return float(loss), torch.baddbmm(band.to_words(push, c), pull, n), band.to_places(push, w), pull.mT @ w


def cbow(h: Tensor, c: Tensor, counted: Tensor, k: float, measured: bool = True) -> tuple[float, Tensor, Tensor]:
    """-Σ_i K_i [log σ(h_i · w_i) + (k/S) Σ_s log σ(-h_i · n_s)].

    Args:
        h: (B, T, d) means of the contexts' vectors.
        c: (B T + B S, d) the vectors w of the words of all blocks, and then those n of their noise.
        counted: (B, T) K, 1, or 0 for a word without contexts.
        k: negative samples of a word.
    """
    B, T, d = h.shape
    words, noise = c[: B * T].view(B, T, d), c[B * T :].view(B, -1, d)
    positive, negative = (h * words).sum(2), h @ noise.mT  # (B, T), (B, T, S)
    weight = counted[:, :, None] * (k / noise.shape[1])
    loss = measured and -(counted * F.logsigmoid(positive)).sum() - (weight * F.logsigmoid(-negative)).sum()
    push = positive.sigmoid_().sub_(1).mul_(counted)[:, :, None]
    pull = negative.sigmoid_().mul_(weight)
    to_c = torch.empty_like(c)
    torch.mul(push, h, out=to_c[: B * T].view(B, T, d))
    torch.bmm(pull.mT, h, out=to_c[B * T :].view(B, -1, d))
    return float(loss), torch.baddbmm(push * words, pull, noise), to_c
