"""EM for the linear dynamical system, with an E-step that sees the covariances of a text and not the text.

Martens, "Learning the linear dynamical system with ASOS", ICML 2010; Belanger & Kakade (ICML 2015), section 5.
The numbers of the equations are ours.

The filter is f_t = H f_{t-1} + K y_t, and the smoother is s_t = J s_{t+1} + P f_t with P = I - JA. So the second-order
statistics of filtered means f, smoothed means s and observations y obey recursions over the lag k = 0 … L:
    YX_k = E[y_{t+k} f_tᵀ] = YX_{k+1} Hᵀ + Ψ_k Kᵀ,                                                              (1)
    XY_k = E[f_{t+k} y_tᵀ] = H XY_{k-1} + K Ψ_k,  XY_0 = YX_0ᵀ,                                                 (2)
    XX_k = E[f_{t+k} f_tᵀ] = XX_{k+1} Hᵀ + XY_k Kᵀ.                                                             (3)
ASOS starts them with what the model itself predicts beyond the last lag:
    YX_{L+1} ≈ CA XX_L,  XX_{L+1} ≈ A XX_L.                                                                     (4)
The smoother adds
    SX_k = E[s_{t+k} f_tᵀ] = J SX_{k+1} + P XX_k,  SX_L ≈ XX_L,                                                 (5)
    SS_0 = E[s_t s_tᵀ] = J SS_0 Jᵀ + J SX_1 Pᵀ + P SX_0ᵀ,                                                       (6)
    SS_1 = E[s_{t+1} s_tᵀ] = SS_0 Jᵀ + SX_1 Pᵀ,                                                                 (7)
    SY_0 = E[s_t y_tᵀ] = Σ_k F_k XY_k,  F_k = Jᵏ P for k < L,  F_L = Jᴸ.                                        (8)
By (1) and (2), the sum in (8) is Σ_k Z_0 Hᵏ K Ψ_kᵀ + Σ_{k>0} Z_k K Ψ_k with Z_k = F_k + Z_{k+1} H, and then what
YX_{L+1} adds.

Because Kᵀ = CW, all of it happens in the coordinates of C: from T_k = CᵀΨ_kC the recursions run on CᵀYX_k and XY_kC,
which are h × h. Only SY_0 is as large as h × V: a sum of h × h matrices times (Ψ_kC)ᵀ and (Ψ_kᵀC)ᵀ. The cost of an
iteration is O(h Σ_k nnz Ψ_k + L V h² + L h³) and does not depend on the length of the text.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.models.lds.estimation.steady_state import SteadyState
from lmzoo.models.lds.estimation.system import LDS, clip_spectrum, power_of_symmetric, signal, sylvester, symmetric
from lmzoo.numerics.svd import Operator

SPECTRUM = 0.9999
"""Largest modulus of A's eigenvalues."""
SIGNAL = 1 - 1e-4
"""Largest s₀."""


class Expectations(NamedTuple):
    """What the E-step expects of the states x, averaged over the text."""

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
    """Nats per token of the whitened observations; one-hot words have it on m^⊥. See `of_words`."""


def e_step(psi: Sequence[Operator], lds: LDS, steady: SteadyState, dimensions: int) -> Expectations:
    """Filter and smooth the statistics Ψ_1 … Ψ_L of a text.

    Args:
        dimensions: in how many dimensions the observations vary: V - 1 for V one-hot words, d for vectors.
    """
    A, C, _ = lds
    H, J, W, L = steady.H, steady.J, steady.W, len(psi)
    P = torch.eye(len(A), dtype=A.dtype, device=A.device) - J @ A
    F = [torch.linalg.matrix_power(J, k) @ P for k in range(L)] + [torch.linalg.matrix_power(J, L)]
    powers = [torch.linalg.matrix_power(H, k) for k in range(2 * L + 2)]
    T, YS = _read(psi, C, W, F, powers)
    YX, XY, last = _observations_with_filtered(T, A, steady, powers)
    beyond = torch.stack([F[k] @ powers[L + 1 + k] for k in range(L + 1)]).sum(0)
    YS += C @ (A @ last @ beyond.mT)  # the end of (8): what YX_{L+1} adds to XY_0
    XX, SX = [last], [last]
    for k in reversed(range(L)):
        XX.insert(0, XX[0] @ H.mT + XY[k] @ W)  # (3)
    for k in reversed(range(L)):
        SX.insert(0, J @ SX[0] + P @ XX[k])  # (5)
    SS = sylvester(J, J, J @ SX[1] @ P.mT + P @ SX[0].mT)  # (6)
    SS = power_of_symmetric(SS, 1.0)  # on texts that are too small it is indefinite
    return Expectations(
        xx=SS + steady.smoothed,
        next=SS @ J.mT + SX[1] @ P.mT + steady.smoothed @ J.mT,  # (7)
        yx=YS,
        filtered=symmetric(XX[0]),
        smoothed=SS,
        log_density=_log_density(lds, steady, YX[1], XX[0], dimensions),
    )


def _read(
    psi: Sequence[Operator], C: Tensor, W: Tensor, F: Sequence[Tensor], powers: Sequence[Tensor]
) -> tuple[list[Tensor], Tensor]:
    """Multiply each Ψ_k once -> T_0 … T_L, (h, h) each, and (V, h) SY_0ᵀ by (8) but for its end.

    ``powers`` are H⁰, H¹, ….
    """
    L, H = len(psi), powers[1]
    Z = [F[L]]
    for k in reversed(range(L)):
        Z.insert(0, F[k] + Z[0] @ H)
    T = [C.mT @ C]
    YS = C @ (W @ Z[0].mT)  # k = 0, where Ψ_0 C = C
    for k, Psi in enumerate(psi, 1):
        ahead = Psi @ C  # (V, h)
        T.append(C.mT @ ahead)
        YS += ahead @ (W @ (Z[0] @ powers[k]).mT)
        YS += (Psi.mT @ C) @ (W @ Z[k].mT)
    return T, YS


def _observations_with_filtered(
    T: Sequence[Tensor], A: Tensor, steady: SteadyState, powers: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """CᵀYX_k and XY_k C for k = 0 … L, and XX_L, all (h, h), by (1), (2) and (4)."""
    H, W, L, GA = steady.H, steady.W, len(T) - 1, T[0] @ A
    YX = [T[L] @ W]  # first as if YX_{L+1} were 0
    for k in reversed(range(L)):
        YX.insert(0, YX[0] @ H.mT + T[k] @ W)  # (1)
    XY = [YX[0].mT]
    for k in range(1, L + 1):
        XY.append(H @ XY[-1] + W.mT @ T[k])  # (2)
    # XX_L is A XX_L Hᵀ + XY_L Kᵀ by (3) and (4), and XY_L Kᵀ contains XX_L, too: H^{2L+1} XX_Lᵀ (CA)ᵀ Kᵀ
    last = term = sylvester(A, H, XY[L] @ W)
    for _ in range(60):
        term = sylvester(A, H, powers[2 * L + 1] @ (GA @ term).mT @ W)
        last = last + term
        if bool(term.norm() <= torch.finfo(last.dtype).eps * last.norm()):
            break
    YX = [YX[k] + GA @ last @ powers[L + 1 - k].mT for k in range(L + 1)]
    XY = [XY[k] + powers[L + 1 + k] @ (GA @ last).mT for k in range(L + 1)]
    return YX, XY, last


def m_step(expectations: Expectations) -> LDS:
    """The likeliest system given the expected states, with Q = I, kept positive definite and stable."""
    xx, following, yx = expectations.xx, expectations.next, expectations.yx
    A = clip_spectrum(torch.linalg.solve(xx, following, left=False), SPECTRUM)
    C = torch.linalg.solve(xx, yx, left=False)
    return LDS(A, C, xx * min(1.0, SIGNAL / signal(C, xx)))


def _log_density(lds: LDS, steady: SteadyState, YX: Tensor, XX: Tensor, dimensions: int) -> float:
    """E log N(y_{t+1}; CAf_t, S) in nats from ``YX`` = CᵀYX_1 and ``XX`` = XX_0."""
    A, C, _ = lds
    G2, G = C.mT @ C, steady.G
    squares = dimensions - (G * G2).sum()  # tr S⁺ E[y yᵀ]
    cross = (A * (YX - G2 @ G @ YX)).sum()  # tr S⁺ YX_1 AᵀCᵀ
    predicted = (A * ((G2 - G2 @ G @ G2) @ A @ XX)).sum()  # tr S⁺ CA XX_0 AᵀCᵀ
    return -0.5 * float(dimensions * math.log(2 * math.pi) + steady.logdet + squares - 2 * cross + predicted)


def of_words(log_density: float, mu: Tensor) -> float:
    """The log-density of the observations e_w - μ on 1^⊥, given that of the whitened ones, in nats per token.

    It does not depend on the whitening. It is not a log-probability, so no perplexity follows from it.
    """
    return log_density - 0.5 * (float(mu.log().sum()) + math.log(len(mu)))
