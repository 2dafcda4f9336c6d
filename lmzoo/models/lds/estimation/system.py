"""The linear dynamical system and the small linear algebra that its estimation shares."""

from typing import NamedTuple

import torch
from torch import Tensor


class LDS(NamedTuple):
    """x_t = A x_{t-1} + η, η ~ N(0, I);  y_t = C x_t + ε, ε ~ N(0, D), D = I - mmᵀ - CMCᵀ, on whitened words.

    Belanger & Kakade (ICML 2015). D is V × V and never stored. Because Cᵀm = 0, observations and D live in m^⊥, and
    inverses are pseudo-inverses there.
    """

    A: Tensor
    """(h, h)."""
    C: Tensor
    """(V, h)."""
    M: Tensor
    """(h, h), the covariance of x_t that leaves D = Ψ_0 - CMCᵀ."""


def sylvester(A: Tensor, B: Tensor, Q: Tensor) -> Tensor:
    """The (h, h) solution X = Σ_i Aⁱ Q (Bⁱ)ᵀ of X = A X Bᵀ + Q, by doubling (Smith 1968)."""
    X = Q
    for _ in range(60):
        step = A @ X @ B.mT
        X = X + step
        if bool(step.norm() <= torch.finfo(X.dtype).eps * X.norm()):
            break
        A, B = A @ A, B @ B
    return X


def symmetric(X: Tensor) -> Tensor:
    """(X + Xᵀ) / 2."""
    return (X + X.mT) / 2


def power_of_symmetric(X: Tensor, exponent: float, floor: float = 0.0) -> Tensor:
    """X^exponent of a symmetric (h, h) matrix; smaller eigenvalues are first set to ``floor`` times the largest."""
    values, vectors = torch.linalg.eigh(symmetric(X))
    values = values.clamp(min=floor * float(values[-1]))
    return vectors * values**exponent @ vectors.mT


def clip_spectrum(A: Tensor, limit: float) -> Tensor:
    """A, whose eigenvalues with a modulus above ``limit`` are shrunk to that modulus."""
    values, vectors = torch.linalg.eig(A)
    modulus = values.abs()
    if bool(modulus.max() <= limit):
        return A
    clipped = vectors * (values * (limit / modulus.clamp(min=limit)))
    return torch.linalg.solve(vectors, clipped, left=False).real


def signal(C: Tensor, M: Tensor) -> float:
    """s₀, the largest eigenvalue of CMCᵀ; D is positive definite on m^⊥ if s₀ < 1."""
    L = torch.linalg.cholesky(M)
    return float(torch.linalg.eigvalsh(L.mT @ (C.mT @ C) @ L)[-1])
