"""What the linear dynamical system knows of a text: counts of pairs of words, and the covariances that they give.

Belanger & Kakade (ICML 2015), sections 3 and 5. With μ the words' frequencies and m = μ^½, a unit vector, the
observation is the one-hot word, centred and whitened: y_t = diag(m)⁻¹ (e_{w_t} - μ). Then
    Ψ_0 = E[y_t y_tᵀ] = I - mmᵀ,
    Ψ_k = E[y_{t+k} y_tᵀ] = diag(m)⁻¹ N_k/N diag(m)⁻¹ - mmᵀ,    N_k[i, j] = #(w_{t+k} = i, w_t = j).
The row is the later word. The text is read as a circle, so Ψ_k m = Ψ_kᵀ m = 0 exactly: every covariance lives in m^⊥.

Section 3: of a given vector for each word, centred and whitened over the text, the observation is
y_w = R^{-½} (e_w - Eᵀμ), R = Eᵀ (diag(μ) - μμᵀ) E, in the coordinates of R's eigenvectors. With B = diag(m) Y, Y the
rows y_wᵀ, it is Bᵀ times the whitened one-hot word, so Ψ_k becomes BᵀΨ_kB, and Ψ_0 is I since BᵀB = I.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.numerics.sparse import coo
from lmzoo.numerics.svd import Operator


class Counts(NamedTuple):
    """How often each word, and each pair of words k apart for k = 1 … K, occurs in a text, which is a circle."""

    words: Tensor
    """(V,) int64."""
    pairs: tuple[tuple[Tensor, Tensor], ...]
    """For each k (P,) ascending codes iV + j, where word i comes k after word j, and (P,) counts; int64."""

    @classmethod
    def of(cls, tokens: Tensor, size: int, lags: int) -> "Counts":
        """Count (N,) tokens below V = ``size``, and pairs for K = ``lags`` lags, K at most N."""
        tokens = tokens.long()
        codes = (tokens.roll(-k) * size + tokens for k in range(1, lags + 1))
        return cls(tokens.bincount(minlength=size), tuple(torch.unique(code, return_counts=True) for code in codes))


@dataclass(frozen=True)
class CrossCovariance:
    """Ψ_k, a (V, V) COO matrix plus a symmetric one of rank two, which has the smoothing and the mean.

    Attributes:
        left, right: (V, 2) and (2, V), whose product is the second.
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


def whiten(counts: Counts, pseudocount: float) -> tuple[Tensor, list[CrossCovariance]]:
    """(V,) frequencies μ and Ψ_1 … Ψ_K of a text, where every word counts as seen κ = ``pseudocount`` times more.

    With λ = κV / (N + κV) and u = 1/V, N_k/N becomes (1 - λ) N_k/N + λuuᵀ. Its marginals are the smoothed frequencies,
    so Ψ_k m = Ψ_kᵀ m = 0 still. Where κ is 0, every word must occur.
    """
    V, N = len(counts.words), int(counts.words.sum())
    share = pseudocount * V / (N + pseudocount * V)  # λ
    mu = (1 - share) / N * counts.words.double() + share / V
    m = mu.sqrt()
    smooth = share**0.5 / V / m
    left, right = torch.stack([smooth, -m], dim=1), torch.stack([smooth, m])
    psi = []
    for codes, number in counts.pairs:
        later, earlier = codes.div(V, rounding_mode="floor"), codes % V
        values = (1 - share) / N * number.double() / (m[later] * m[earlier])
        psi.append(CrossCovariance(coo(later, earlier, values, (V, V)), left, right))
    return mu, psi


RANK = 1e-10
"""Vectors do not vary in a direction where their variance is a smaller share of the largest."""


def whiten_vectors(vectors: Tensor, mu: Tensor) -> Tensor:
    """(V, d) word vectors -> the (V, r) observations Y, with mean 0 and covariance I over a text with frequencies μ.

    r ≤ d is the number of dimensions in which the vectors vary.
    """
    centred = vectors.to(mu) - mu @ vectors.to(mu)
    R = centred.mT @ (mu[:, None] * centred)  # (d, d)
    variances, directions = torch.linalg.eigh(R)
    vary = variances > RANK * variances[-1]
    return centred @ (directions[:, vary] * variances[vary].rsqrt())


def with_mean(rows: Sequence[int], vectors: Tensor, mu: Tensor) -> Tensor:
    """(n, d) vectors of some of V words -> (V, d) of all: others have their mean, so that they tell nothing."""
    share = mu[list(rows)] / mu[list(rows)].sum()
    whole = (share @ vectors.to(mu)).repeat(len(mu), 1)
    whole[list(rows)] = vectors.to(mu)
    return whole


def project(psi: Sequence[Operator], Y: Tensor, mu: Tensor) -> list[Tensor]:
    """Ψ_1 … of one-hot words -> those of the (V, d) observations Y, (d, d) each."""
    B = mu.sqrt()[:, None] * Y  # (V, d)
    return [B.mT @ (Psi @ B) for Psi in psi]
