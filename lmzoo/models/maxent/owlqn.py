"""Minimising a convex function with many variables and an L1 penalty: OWL-QN, and L-BFGS where the penalty is zero.

Andrew & Gao, *Scalable training of L1-regularized log-linear models*, ICML 2007; Nocedal,
*Updating quasi-Newton matrices with limited storage*, 1980.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

SUFFICIENT_DECREASE = 1e-4
"""γ of Armijo's condition."""
HALVINGS = 40
"""Steps shorter than 2^-40 of the first are below float64's resolution of the function's decrease."""


class Minimum(NamedTuple):
    """Where the search ended: x, f(x) + Σ l1 |x|, the iterations it took, and whether it was done by then."""

    x: Tensor
    value: float
    iterations: int
    converged: bool


def minimise(
    function: Callable[[Tensor], tuple[float, Tensor]],
    x: Tensor,
    *,
    l1: Tensor,
    curvature: Tensor,
    tolerance: float,
    max_iterations: int,
    memory: int = 10,
) -> Minimum:
    """Minimise f(x) + Σ_i l1_i |x_i|; variables that the penalty holds end at exactly zero.

    Args:
        function: x -> f(x), which is convex, and its gradient.
        x: (K,) where to begin.
        l1: (K,), at least 0.
        curvature: (K,) positive; a guess of f's second derivatives, from which quasi-Newton updates start.
        tolerance: the search is over when an iteration lowers the value by less than this share of it.
        memory: how many steps the quasi-Newton updates remember.
    """
    steps: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=memory)  # s, y and 1 / yᵀs
    f, gradient = function(x)
    value = f + float(l1 @ x.abs())
    for iteration in range(max_iterations):
        slope = _pseudo_gradient(x, gradient, l1)
        direction = -_inverse_hessian(slope, steps, curvature)
        direction = torch.where((direction * slope < 0) | (l1 == 0), direction, 0.0)
        orthant = torch.where(x == 0, -slope.sign(), x.sign())
        rate = 1.0
        for _ in range(HALVINGS):
            moved = x + rate * direction
            moved = torch.where((moved.sign() == orthant) | (l1 == 0), moved, 0.0)
            f, moved_gradient = function(moved)
            moved_value = f + float(l1 @ moved.abs())
            if moved_value <= value + SUFFICIENT_DECREASE * float(slope @ (moved - x)):
                break
            rate /= 2
        else:
            return Minimum(x, value, iteration, converged=True)  # no lower value can be resolved
        s, y = moved - x, moved_gradient - gradient
        if (ys := float(y @ s)) > 0:
            steps.append((s, y, 1 / ys))
        decrease = value - moved_value
        x, value, gradient = moved, moved_value, moved_gradient
        if decrease <= tolerance * abs(value):
            return Minimum(x, value, iteration + 1, converged=True)
    return Minimum(x, value, max_iterations, converged=False)


def _pseudo_gradient(x: Tensor, gradient: Tensor, l1: Tensor) -> Tensor:
    """The derivative on the side that lowers the value; zero where neither side does (Andrew & Gao, equation 4)."""
    at_zero = gradient.sign() * (gradient.abs() - l1).clamp(min=0.0)
    return torch.where(x == 0, at_zero, gradient + l1 * x.sign())


def _inverse_hessian(gradient: Tensor, steps: deque[tuple[Tensor, Tensor, float]], curvature: Tensor) -> Tensor:
    """H · gradient by the two-loop recursion, H starting from diag(1 / curvature), scaled to the latest step."""
    q = gradient.clone()
    coefficients = []
    for s, y, rho in reversed(steps):
        coefficients.append(rho * float(s @ q))
        q.add_(y, alpha=-coefficients[-1])
    q /= curvature
    if steps:
        _, y, rho = steps[-1]
        q /= rho * float(y @ (y / curvature))
    for (s, y, rho), coefficient in zip(steps, reversed(coefficients), strict=True):
        q.add_(s, alpha=coefficient - rho * float(y @ q))
    return q
