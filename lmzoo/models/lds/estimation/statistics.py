"""What the linear dynamical system knows of a text: counts of pairs of words, and the covariances that they give.

Belanger & Kakade (ICML 2015), sections 3 and 5. With μ the words' frequencies and m = μ^½, a unit vector, the
observation is the one-hot word, centred and whitened: y_t = diag(m)⁻¹ (e_{w_t} - μ). Then
    Ψ_0 = E[y_t y_tᵀ] = I - mmᵀ,
    Ψ_k = E[y_{t+k} y_tᵀ] = diag(m)⁻¹ N_k/N diag(m)⁻¹ - mmᵀ,    N_k[i, j] = #(w_{t+k} = i, w_t = j).
The row is the later word. The text is read as a circle, so Ψ_k m = Ψ_kᵀ m = 0 exactly: every covariance lives in m^⊥.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.numerics.sparse import coo


@dataclass(frozen=True)
class Counts:
    """How often each word occurs in a text, and each pair of words k apart for k = 1 … K.

    ``a + b`` are the counts of b's text written after a's. So parts of a text can be counted in a stream or in
    parallel.

    Attributes:
        words: (V,) int64.
        pairs: for each k (P,) ascending codes iV + j, where word i comes k after word j, and (P,) counts; int64.
        head, tail: the first and the last K tokens of the text, or all of a shorter text.
    """

    words: Tensor
    pairs: tuple[tuple[Tensor, Tensor], ...]
    head: Tensor
    tail: Tensor

    @classmethod
    def of(cls, tokens: Tensor, size: int, lags: int) -> "Counts":
        """Count (N,) int64 tokens below V = ``size``, and pairs for K = ``lags`` lags."""
        pairs = tuple(_tally(tokens[k:] * size + tokens[:-k]) for k in range(1, lags + 1))
        tail = tokens[max(0, len(tokens) - lags) :]
        return cls(tokens.bincount(minlength=size), pairs, tokens[:lags].clone(), tail.clone())

    def __add__(self, after: "Counts") -> "Counts":
        lags = len(self.pairs)
        pairs = tuple(
            _tally(torch.cat([first[0], across, second[0]]), torch.cat([first[1], torch.ones_like(across), second[1]]))
            for first, second, across in zip(self.pairs, after.pairs, self._across(after), strict=True)
        )
        tail = torch.cat([self.tail, after.tail])
        head = torch.cat([self.head, after.head])[:lags]
        return Counts(self.words + after.words, pairs, head, tail[max(0, len(tail) - lags) :])

    def closed(self) -> "Counts":
        """The counts of the text as a circle, where the first word follows the last.

        Raises: ValueError for a text that is shorter than K.
        """
        if len(self.head) < len(self.pairs):
            raise ValueError(f"a circle for {len(self.pairs)} lags needs at least as many tokens")
        pairs = tuple(
            _tally(torch.cat([codes, across]), torch.cat([counts, torch.ones_like(across)]))
            for (codes, counts), across in zip(self.pairs, self._across(self), strict=True)
        )
        return Counts(self.words, pairs, self.head, self.tail)

    def _across(self, after: "Counts") -> list[Tensor]:
        """For each lag the codes of the pairs that begin in this text and end in the text ``after`` it."""
        joint, border = torch.cat([self.tail, after.head]), len(self.tail)
        codes = []
        for k in range(1, len(self.pairs) + 1):
            start = max(0, border - k)
            stop = max(start, min(border, len(joint) - k))
            codes.append(joint[start + k : stop + k] * len(self.words) + joint[start:stop])
        return codes


def _tally(codes: Tensor, counts: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Distinct codes, ascending, and the sum of the counts of each."""
    if counts is None:
        return torch.unique(codes, return_counts=True)
    distinct, place = torch.unique(codes, return_inverse=True)
    return distinct, torch.zeros_like(distinct).index_add_(0, place, counts)


@dataclass(frozen=True)
class CrossCovariance:
    """Ψ_k, a sparse matrix plus a symmetric one of rank two, which has the smoothing and the mean.

    Attributes:
        sparse: (V, V) COO.
        left, right: (V, 2) and (2, V); the rest of Ψ_k is their product.
    """

    sparse: Tensor
    left: Tensor
    right: Tensor

    def __len__(self) -> int:
        return len(self.left)

    def __matmul__(self, X: Tensor) -> Tensor:
        return torch.sparse.mm(self.sparse, X).addmm_(self.left, self.right @ X)

    @property
    def mT(self) -> "CrossCovariance":  # noqa: N802 - torch's name
        """Ψ_kᵀ."""
        return CrossCovariance(self.sparse.t(), self.left, self.right)

    @property
    def device(self) -> torch.device:
        """Where its numbers are."""
        return self.left.device


class Statistics(NamedTuple):
    """What estimation needs to know of a text."""

    mu: Tensor
    """(V,) smoothed frequencies of the words, μ."""
    psi: tuple[CrossCovariance, ...]
    """Ψ_1 … Ψ_K."""


def whiten(counts: Counts, pseudocount: float) -> Statistics:
    """The frequencies and covariances of a text, where every word counts as seen κ = ``pseudocount`` times more.

    With λ = κV / (N + κV) and u = 1/V, N_k/N becomes (1 - λ) N_k/N + λuuᵀ. Its marginals are the smoothed frequencies,
    so Ψ_k m = Ψ_kᵀ m = 0 still.

    Raises: ValueError for a word that never occurs where ``pseudocount`` is 0.
    """
    counts = counts.closed()
    V, N = len(counts.words), int(counts.words.sum())
    share = pseudocount * V / (N + pseudocount * V)  # λ
    mu = (1 - share) / N * counts.words.double() + share / V
    if bool((mu == 0).any()):
        raise ValueError("without pseudocounts every word of the vocabulary must occur")
    m = mu.sqrt()
    smooth = share**0.5 / V / m
    left, right = torch.stack([smooth, -m], dim=1), torch.stack([smooth, m])
    psi = []
    for codes, number in counts.pairs:
        later, earlier = codes.div(V, rounding_mode="floor"), codes % V
        values = (1 - share) / N * number.double() / (m[later] * m[earlier])
        psi.append(CrossCovariance(coo(later, earlier, values, (V, V)), left, right))
    return Statistics(mu, tuple(psi))
