"""The limits of the Kalman filter and smoother after a long time, from h × h matrices only.

Every V × V covariance is the identity of m^⊥ minus a matrix of rank h. The formula of Sherman, Morrison & Woodbury
inverts it: with G₂ = CᵀC, CᵀD⁺C = G₂ (I - MG₂)⁻¹. The Riccati equation is solved by doubling (Anderson & Moore 1979,
section 6.7). Belanger & Kakade (ICML 2015), section 5; Martens (ICML 2010).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.models.lds.estimation.system import LDS, sylvester, symmetric


class SteadyState(NamedTuple):
    """Limits of the filter and the smoother of an `LDS`; all matrices are (h, h).

    The filter is f_t = H f_{t-1} + K y_t with K = WᵀCᵀ. The smoother is s_t = J s_{t+1} + (I - JA) f_t.
    """

    prior: Tensor
    """Σ₁, the covariance of x_t given y_<t."""
    posterior: Tensor
    """Σ₀, the covariance of x_t given y_≤t."""
    smoothed: Tensor
    """V_s, the covariance of x_t given all y; the covariance of x_{t+1} with x_t is V_s Jᵀ."""
    G: Tensor
    """G_s, from the precision of the innovation: S⁺ = I - mmᵀ - C G_s Cᵀ."""
    logdet: Tensor
    """log det S on m^⊥, a scalar."""
    W: Tensor
    """Kᵀ = C W."""
    H: Tensor
    J: Tensor


def steady_state(lds: LDS) -> SteadyState:
    """The limits of the filter's covariances and gains."""
    A, C, M = lds
    identity = torch.eye(len(A), dtype=A.dtype, device=A.device)
    G2 = C.mT @ C
    prior = riccati(A, symmetric(torch.linalg.solve(identity - G2 @ M, G2)))
    N = prior - M  # S = I - mmᵀ + C N Cᵀ; N is indefinite
    inner = identity + G2 @ N
    G = symmetric(torch.linalg.solve(inner, N, left=False))
    W = (identity - G @ G2) @ prior
    KC = W.mT @ G2
    posterior = symmetric(prior - KC @ prior)
    J = torch.linalg.solve(prior, A @ posterior).mT  # Σ₀ Aᵀ Σ₁⁻¹
    smoothed = symmetric(sylvester(J, J, posterior - J @ prior @ J.mT))
    logdet = torch.linalg.slogdet(inner).logabsdet
    return SteadyState(prior, posterior, smoothed, G, logdet, W, A - KC @ A, J)


def riccati(A: Tensor, precision: Tensor) -> Tensor:
    """The (h, h) solution of Σ = A (Σ⁻¹ + P)⁻¹ Aᵀ + I by doubling; ``precision`` is P = CᵀD⁺C, of an observation."""
    identity = torch.eye(len(A), dtype=A.dtype, device=A.device)
    Theta, Psi, Phi = identity, precision, A.mT
    for _ in range(60):
        B = torch.linalg.inv(identity + Psi @ Theta)
        step = symmetric(Phi.mT @ Theta @ B @ Phi)
        Theta, Psi, Phi = Theta + step, symmetric(Psi + Phi @ B @ Psi @ Phi.mT), Phi @ B @ Phi
        if bool(step.norm() <= torch.finfo(A.dtype).eps * Theta.norm()):
            break
    return Theta
