"""A given vector for each word in place of one-hot words: the statistics of the same counts, d × d and dense.

Belanger & Kakade (ICML 2015), section 3. A word's vector, centred and whitened over the text, is
y_w = R^{-½} (e_w - Eᵀμ), R = Eᵀ (diag(μ) - μμᵀ) E. With B = diag(m) Y, Y the rows y_wᵀ, the observation is Bᵀ times
the whitened one-hot word, so Ψ_k becomes BᵀΨ_kB, and Ψ_0 is I since BᵀB = I.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from lmzoo.models.lds.estimation.statistics import Operator
from lmzoo.models.lds.estimation.system import power_of_symmetric

RANK = 1e-10
"""Least variance of the vectors in a direction, as a share of the largest."""


def whiten_vectors(vectors: Tensor, mu: Tensor) -> Tensor:
    """(V, d) word vectors -> the (V, d) observations Y, with mean 0 and covariance I over a text with frequencies μ.

    Raises: ValueError where the vectors lie in fewer than d dimensions.
    """
    centred = vectors.to(mu) - mu @ vectors.to(mu)
    R = centred.mT @ (mu[:, None] * centred)  # (d, d)
    variances = torch.linalg.eigvalsh(R)
    if bool(variances[0] <= RANK * variances[-1]):
        raise ValueError(f"the word vectors lie in fewer than {len(R)} dimensions; project them onto those")
    return centred @ power_of_symmetric(R, -0.5)


def project(psi: Sequence[Operator], Y: Tensor, mu: Tensor) -> list[Tensor]:
    """Ψ_1 … of one-hot words -> those of the (V, d) observations Y, (d, d) each."""
    B = mu.sqrt()[:, None] * Y  # (V, d)
    return [B.mT @ (Psi @ B) for Psi in psi]


def vector_gains(Y: Tensor, C: Tensor, W: Tensor) -> Tensor:
    """(V, h) rows K y_w: what each word adds to the filtered mean."""
    return Y @ (C @ W)
