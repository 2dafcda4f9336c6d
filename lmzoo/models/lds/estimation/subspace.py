"""Subspace identification: a linear dynamical system from covariances by one singular value decomposition.

Belanger & Kakade (ICML 2015), section 4; van Overschee & De Moor (1996).
"""

from collections.abc import Sequence
from functools import reduce
from operator import iadd, matmul
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.models.lds.estimation.system import LDS, clip_spectrum, power_of_symmetric, signal, sylvester, symmetric
from lmzoo.numerics.svd import Operator, randomised_svd

OVERSAMPLING = 10
RANK = 1e-12
"""Smaller singular values are rounding errors; the largest are near 1."""
SPECTRUM = 0.98
"""Largest modulus of A's eigenvalues."""
SIGNAL = 0.95
"""Largest s₀."""
FLOOR = 1e-3
"""Least eigenvalue of Q as a share of its largest, where no linear system has the moments."""


class Hankel(NamedTuple):
    """H_r, the (rV, rV) matrix of r × r blocks; block (i, j), both from 1, is Ψ_{r-j+i}.

    It is the covariance of the next r words, the next one first, with the past r words, the last one last.
    """

    psi: Sequence[Operator]
    """Ψ_1 … Ψ_{2r-1}."""

    def __matmul__(self, X: Tensor) -> Tensor:
        r = (len(self.psi) + 1) // 2
        parts, rows = X.chunk(r), [self.psi[i : i + r][::-1] for i in range(r)]
        return torch.cat([reduce(iadd, map(matmul, row, parts)) for row in rows])

    @property
    def mT(self) -> "Hankel":  # noqa: N802 - torch's name
        """The transpose."""
        return Hankel([block.mT for block in reversed(self.psi)])


def identify(psi: Sequence[Operator], start: Tensor, hidden: int, blocks: int) -> LDS:
    """A first system of h = ``hidden`` dimensions from Ψ_1 … Ψ_{2r-1}.

    H_r = Γ Δ with Γ_i = C Aⁱ⁻¹ and Δ_j = A^{r-j} G, G = A Π Cᵀ, Π = E[x xᵀ]. If a linear system of h dimensions has
    these moments, then the result has exactly the same moments.

    Args:
        start: (rV, h or more) Gaussian numbers, for `randomised_svd`.
        blocks: r, at least 2.

    Raises: UserError where the moments leave fewer than h dimensions.
    """
    U, S, V = randomised_svd(Hankel(psi), start, hidden)
    if (rank := int((S > RANK).sum())) < hidden:
        problem = f"model.hidden={hidden}: the covariances of the text have rank {rank}"
        raise UserError(problem, "set model.hidden to that or less")
    Gamma = (U * S.sqrt()).unflatten(0, (blocks, -1))  # (r, V, h)
    Delta = (V * S.sqrt()).unflatten(0, (blocks, -1))  # (r, V, h), Δ_jᵀ each
    later, earlier = Delta[1:].flatten(0, 1), Delta[:-1].flatten(0, 1)
    A = clip_spectrum(torch.linalg.lstsq(later, earlier).solution.mT, SPECTRUM)  # Δ_j = A Δ_{j+1}
    powers = torch.stack([torch.linalg.matrix_power(A, i) for i in range(blocks)])  # (r, h, h)
    gram = (powers @ powers.mT).sum(0)
    C = torch.linalg.solve(gram, (Gamma @ powers.mT).sum(0), left=False)  # Γ_i = C Aⁱ⁻¹
    inverse, _ = torch.linalg.inv_ex(C.mT @ C)
    exact = unit_noise(A, C, symmetric(torch.linalg.inv_ex(A)[0] @ (Delta[-1].mT @ C) @ inverse))  # Π of G = AΠCᵀ
    if exact is not None:
        return exact
    # Often no linear system has the moments, and Q is indefinite. Π is diag(S) in balanced coordinates.
    Q = symmetric(torch.diag(S) - A * S @ A.mT)
    Pi = symmetric(sylvester(A, A, power_of_symmetric(Q, 1.0, FLOOR)))
    lds = unit_noise(A, C, Pi * min(1.0, SIGNAL / signal(C, Pi)))
    assert lds is not None, "Q is at least FLOOR and s₀ at most SIGNAL"
    return lds


def unit_noise(A: Tensor, C: Tensor, Pi: Tensor) -> LDS | None:
    """The system with E[x xᵀ] = Π where Q = Π - AΠAᵀ is I; None unless Q and D are positive definite."""
    if not bool(torch.isfinite(Pi).all()):
        return None
    L, failed = torch.linalg.cholesky_ex(symmetric(Pi - A @ Pi @ A.mT))  # Q = LLᵀ
    if bool(failed):
        return None
    A, C = torch.linalg.solve_triangular(L, A @ L, upper=False), C @ L
    M = torch.linalg.solve_triangular(L, torch.linalg.solve_triangular(L, Pi, upper=False).mT, upper=False)
    lds = LDS(A, C, symmetric(M))
    return lds if signal(lds.C, lds.M) < 1 else None
