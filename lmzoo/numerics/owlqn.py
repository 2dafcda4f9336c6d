"""Minimising a convex function of many variables with an L1 penalty: OWL-QN. Without the penalty it is L-BFGS.

Andrew & Gao, *Scalable training of L1-regularized log-linear models*, ICML 2007; Nocedal,
*Updating quasi-Newton matrices with limited storage*, 1980.
"""

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.core.iterations import iterations

SUFFICIENT_DECREASE = 1e-4
"""γ of Armijo's condition."""
HALVINGS = 40
"""A step shorter than 2^-40 of the first lowers the function by less than float64 resolves."""


class Iterate(NamedTuple):
    """A place of the search: x, f(x) + Σ l1 |x|, and the gradient of f."""

    x: Tensor
    value: float
    gradient: Tensor


class Search:
    """A search step by step, whose ``point`` is where it stands; its arguments are those of `minimise`, and how many
    steps the quasi-Newton updates remember. `minimise` sets ``iterations``, those it took, and ``converged``."""

    def __init__(
        self, function: Callable[[Tensor], tuple[float, Tensor]], x: Tensor, *, l1: Tensor, curvature: Tensor,
        memory: int = 10,
    ):  # fmt: skip
        self.function, self.l1, self.curvature = function, l1, curvature
        self.steps: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=memory)
        """s, y and 1 / yᵀs of the last steps."""
        self.point = self._evaluate(x)
        self.iterations, self.converged = 0, False

    def _evaluate(self, x: Tensor) -> Iterate:
        f, gradient = self.function(x)
        return Iterate(x, f + float(self.l1 @ x.abs()), gradient)

    def state_dict(self) -> dict[str, Tensor]:
        """All that later steps depend on, beside the arguments."""
        x, value, gradient = self.point
        s, y, rho = zip(*self.steps, strict=True) if self.steps else ((), (), ())
        none = x.new_zeros(0, len(x))
        return {
            "x": x,
            "value": torch.tensor(value, dtype=torch.float64),
            "gradient": gradient,
            "s": torch.stack(s) if s else none,
            "y": torch.stack(y) if y else none,
            "rho": torch.tensor(rho, dtype=torch.float64),
        }

    def load_state_dict(self, saved: Mapping[str, Tensor]) -> None:
        """Go on after the `state_dict` of a search with the same arguments."""
        # clones, as the place in memory decides the order in which a product's terms are added
        like, P = self.point.x, len(self.point.x)
        x, gradient = (saved[name].to(like).view(P).clone() for name in ("x", "gradient"))
        self.point = Iterate(x, float(saved["value"]), gradient)
        sides = (saved[name].to(like).view(-1, P) for name in ("s", "y"))
        for s, y, rho in zip(*sides, saved["rho"].view(-1).tolist(), strict=True):
            self.steps.append((s.clone(), y.clone(), rho))

    def step(self) -> float | None:
        """Go on to a lower point. Returns: by how much it is lower; None where no lower one is resolved."""
        here = self.point
        # the derivative on the side that lowers the value; 0 if neither side does (Andrew & Gao, equation 4)
        at_zero = here.gradient.sign() * (here.gradient.abs() - self.l1).clamp(min=0.0)
        slope = torch.where(here.x == 0, at_zero, here.gradient + self.l1 * here.x.sign())
        if (moved := self._line_search(slope, -self._inverse_hessian(slope))) is None:
            return None
        s, y = moved.x - here.x, moved.gradient - here.gradient
        if (ys := float(y @ s)) > 0:
            self.steps.append((s, y, 1 / ys))
        self.point = moved
        return here.value - moved.value

    def _line_search(self, slope: Tensor, direction: Tensor) -> Iterate | None:
        """The first point along a direction that is low enough, steps being halved; None if no lower one is resolved.

        Every step stays in one orthant, where the penalty is linear (Andrew & Gao 2007).
        """
        here, l1 = self.point, self.l1
        direction = torch.where((direction * slope < 0) | (l1 == 0), direction, 0.0)
        orthant = torch.where(here.x == 0, -slope.sign(), here.x.sign())
        rate = 1.0
        for _ in range(HALVINGS):
            x = here.x + rate * direction
            moved = self._evaluate(torch.where((x.sign() == orthant) | (l1 == 0), x, 0.0))
            if moved.value <= here.value + SUFFICIENT_DECREASE * float(slope @ (moved.x - here.x)):
                return moved
            rate /= 2
        return None

    def _inverse_hessian(self, gradient: Tensor) -> Tensor:
        """(K,) H · gradient by the two-loop recursion (Nocedal 1980), from scaled diag(1 / curvature)."""
        q = gradient.clone()
        coefficients = []
        for s, y, rho in reversed(self.steps):
            coefficients.append(rho * float(s @ q))
            q.add_(y, alpha=-coefficients[-1])
        q /= self.curvature
        if self.steps:
            _, y, rho = self.steps[-1]
            q /= rho * float(y @ (y / self.curvature))
        for (s, y, rho), coefficient in zip(self.steps, reversed(coefficients), strict=True):
            q.add_(s, alpha=coefficient - rho * float(y @ q))
        return q


def minimise(
    function: Callable[[Tensor], tuple[float, Tensor]],
    x: Tensor,
    *,
    l1: Tensor,
    curvature: Tensor,
    tolerance: float,
    max_iterations: int,
) -> Search:
    """Minimise f(x) + Σ_i l1_i |x_i|; variables that the penalty holds end at exactly zero.

    Args:
        function: x -> f(x), which is convex, and its gradient.
        x: (K,) where the search begins.
        l1: (K,), at least 0.
        curvature: (K,) positive; a guess of f's second derivatives, from which quasi-Newton updates start.
        tolerance: the search ends when an iteration lowers the value by less than this share of it.
        max_iterations: the search ends after this number of iterations at the latest.
    """
    search = Search(function, x, l1=l1, curvature=curvature)
    search.iterations = max_iterations
    for iteration in iterations(
        max_iterations, "L-BFGS", search.state_dict, search.load_state_dict,
        notes=lambda: [f"objective {search.point.value:.6g}"],
    ):  # fmt: skip
        decrease = search.step()
        if decrease is None or decrease <= tolerance * abs(search.point.value):
            search.iterations = iteration + (decrease is not None)
            search.converged = math.isfinite(search.point.value)
            break
    return search
