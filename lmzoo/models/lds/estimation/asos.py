"""EM for the linear dynamical system whose E-step sees covariances, not the text.

Martens, "Learning the linear dynamical system with ASOS", ICML 2010; Belanger & Kakade (ICML 2015), section 5.
Second-order statistics of filtered means f, smoothed means s and observations y obey the recursions of the
filter and the smoother. With YX_k = E[y_{t+k} f_tᵀ], XY_k = E[f_{t+k} y_tᵀ], XX_k = E[f_{t+k} f_tᵀ] and L lags,
    YX_k = YX_{k+1} Hᵀ + Ψ_k Kᵀ,    XY_k = H XY_{k-1} + K Ψ_k,    XX_k = XX_{k+1} Hᵀ + XY_k Kᵀ,
begun where the model itself foretells the lag: YX_{L+1} ≈ CA XX_L, XX_{L+1} ≈ A XX_L.

Since Kᵀ = CW, all of it takes place in the coordinates of C: from T_k = CᵀΨ_kC the recursions run on
CᵀYX_k and XY_kC, which are h × h. Only E[y sᵀ] is V × h, and it is a sum of Ψ_kC and Ψ_kᵀC times h × h
coefficients. An iteration costs O(h Σ_k nnz Ψ_k + L V h² + L h³), however long the text.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.models.lds.estimation.statistics import Operator
from lmzoo.models.lds.estimation.steady_state import SteadyState
from lmzoo.models.lds.estimation.system import LDS, clip_spectrum, power_of_symmetric, signal, sylvester, symmetric

SPECTRUM = 0.9999
"""Largest modulus of A's eigenvalues."""
SIGNAL = 1 - 1e-4
"""Largest s₀."""


class Expectations(NamedTuple):
    """What the E-step knows of the states."""

    xx: Tensor
    """(h, h) E[x_t x_tᵀ]."""
    next: Tensor
    """(h, h) E[x_{t+1} x_tᵀ]."""
    yx: Tensor
    """(V, h) E[y_t x_tᵀ]."""
    filtered: Tensor
    """(h, h) XX_0 = E[f_t f_tᵀ] of the filtered means."""
    smoothed: Tensor
    """(h, h) SS_0 = E[s_t s_tᵀ] of the smoothed means."""
    log_density: float
    """Nats per token of the whitened observations, of words on m^⊥; see `of_words`."""


def e_step(psi: Sequence[Operator], lds: LDS, steady: SteadyState, dimensions: int) -> Expectations:
    """Filter and smooth the statistics Ψ_1 … Ψ_L of a text.

    Args:
        dimensions: in which the observations vary, V - 1 of V one-hot words, d of vectors.
    """
    A, C, _ = lds
    W, H, J = steady.W, steady.H, steady.J
    L, GA = len(psi), C.mT @ C @ A
    P = torch.eye(len(A), dtype=A.dtype, device=A.device) - J @ A
    Hk = [torch.linalg.matrix_power(H, k) for k in range(2 * L + 2)]
    F = [torch.linalg.matrix_power(J, k) @ P for k in range(L)] + [torch.linalg.matrix_power(J, L)]

    # SY_0 = E[s yᵀ] = Σ_k F_k XY_k with F_k = Jᵏ P, but F_L = Jᴸ: a sum of Z_k K Ψ_k and Z_0 Hᵏ K Ψ_kᵀ
    Z = [F[L]]
    for k in reversed(range(L)):
        Z.insert(0, F[k] + Z[0] @ H)
    YS = C @ (W @ Z[0].mT)  # (V, h), SY_0ᵀ
    T = [C.mT @ C]
    for k, Psi in enumerate(psi, 1):
        ahead = Psi @ C  # (V, h)
        T.append(C.mT @ ahead)
        YS += ahead @ (W @ (Z[0] @ Hk[k]).mT)
        YS += (Psi.mT @ C) @ (W @ Z[k].mT)

    YX = [T[L] @ W]  # CᵀYX_k, XY_k C: first as if there were nothing beyond lag L
    for k in reversed(range(L)):
        YX.insert(0, YX[0] @ H.mT + T[k] @ W)
    XY = [YX[0].mT]
    for k in range(1, L + 1):
        XY.append(H @ XY[-1] + W.mT @ T[k])
    X = _last_lag(A, H, W, GA, Hk[2 * L + 1], XY[L] @ W)
    YX = [YX[k] + GA @ X @ Hk[L + 1 - k].mT for k in range(L + 1)]
    XY = [XY[k] + Hk[L + 1 + k] @ (GA @ X).mT for k in range(L + 1)]
    YS += C @ (A @ X @ torch.stack([F[k] @ Hk[L + 1 + k] for k in range(L + 1)]).sum(0).mT)

    XX = [X]
    for k in reversed(range(L)):
        XX.insert(0, XX[0] @ H.mT + XY[k] @ W)
    SX = [X]
    for k in reversed(range(L)):
        SX.insert(0, J @ SX[0] + P @ XX[k])
    SS = power_of_symmetric(sylvester(J, J, J @ SX[1] @ P.mT + P @ SX[0].mT), 1.0)  # indefinite on texts too small
    return Expectations(
        xx=SS + steady.smoothed,
        next=SS @ J.mT + SX[1] @ P.mT + steady.smoothed @ J.mT,
        yx=YS,
        filtered=symmetric(XX[0]),
        smoothed=SS,
        log_density=_log_density(lds, steady, YX[1], XX[0], dimensions),
    )


def _last_lag(A: Tensor, H: Tensor, W: Tensor, GA: Tensor, power: Tensor, known: Tensor) -> Tensor:
    """XX_L = A XX_L Hᵀ + XY_L Kᵀ, where XY_L Kᵀ is ``known`` but for H^{2L+1} XX_Lᵀ (CA)ᵀ Kᵀ; ``power`` is H^{2L+1}."""
    X = term = sylvester(A, H, known)
    for _ in range(60):
        term = sylvester(A, H, power @ (GA @ term).mT @ W)
        X = X + term
        if bool(term.norm() <= torch.finfo(X.dtype).eps * X.norm()):
            break
    return X


def m_step(expectations: Expectations) -> LDS:
    """The system that makes the expected states likeliest, Q being I; kept inside what is positive and stable."""
    xx, following, yx = expectations.xx, expectations.next, expectations.yx
    A = clip_spectrum(torch.linalg.solve(xx, following, left=False), SPECTRUM)
    C = torch.linalg.solve(xx, yx, left=False)
    return LDS(A, C, xx * min(1.0, SIGNAL / signal(C, xx)))


def _log_density(lds: LDS, steady: SteadyState, YX: Tensor, XX: Tensor, dimensions: int) -> float:
    """E log N(y_{t+1}; CAf_t, S) from CᵀYX_1 and XX_0."""
    A, C, _ = lds
    G2, G = C.mT @ C, steady.G
    squares = dimensions - (G * G2).sum()  # tr S⁺ E[y yᵀ]
    cross = (A * (YX - G2 @ G @ YX)).sum()  # tr S⁺ YX_1 AᵀCᵀ
    predicted = (A * ((G2 - G2 @ G @ G2) @ A @ XX)).sum()  # tr S⁺ CA XX_0 AᵀCᵀ
    return -0.5 * float(dimensions * math.log(2 * math.pi) + steady.logdet + squares - 2 * cross + predicted)


def of_words(log_density: float, mu: Tensor) -> float:
    """The same density with respect to e_w - μ on 1^⊥, which does not depend on the whitening.

    It is no probability: one-hot words are points, and nothing about perplexity follows from it.
    """
    return log_density - 0.5 * (float(mu.log().sum()) + math.log(len(mu)))
