"""A given vector for each word in place of one-hot words: the statistics of the same counts, d × d and dense.

Belanger & Kakade (ICML 2015), section 3. A word's vector, centred and whitened over the text, is
y_w = R^{-½} (e_w - Eᵀμ), R = Eᵀ (diag(μ) - μμᵀ) E, in the coordinates of R's eigenvectors. With B = diag(m) Y, Y the
rows y_wᵀ, the observation is Bᵀ times the whitened one-hot word, so Ψ_k becomes BᵀΨ_kB, and Ψ_0 is I since BᵀB = I.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from lmzoo.numerics.svd import Operator

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
