"""OWL-QN on functions whose minimum is known."""

import math

import pytest
import torch
from maxent_oracle import draw

from lmzoo.numerics.owlqn import minimise


def test_minimise_finds_a_known_minimum():
    """Separable: the minimum of a/2 x² - b x + l1 |x| is b shrunk by l1, over a."""
    a, b = draw(50).exp(), draw(51)[:50]
    l1 = torch.linspace(0, 1, 50, dtype=torch.float64)
    found = minimise(
        lambda x: (float(a @ x**2) / 2 - float(b @ x), a * x - b),
        torch.zeros_like(a),
        l1=l1,
        curvature=torch.ones_like(a),
        tolerance=1e-15,
        max_iterations=500,
    )
    expected = b.sign() * (b.abs() - l1).clamp(min=0) / a
    torch.testing.assert_close(found.point.x, expected, atol=1e-6, rtol=0)
    assert torch.equal(found.point.x == 0, expected == 0)


@pytest.mark.parametrize("iterations", [0, 2])
def test_the_search_ends_after_its_last_iteration(iterations: int):
    a = draw(50).exp()
    one = torch.ones_like(a)
    found = minimise(
        lambda x: (float(a @ (x - 1) ** 4), 4 * a * (x - 1) ** 3),
        torch.zeros_like(a),
        l1=torch.zeros_like(a),
        curvature=one,
        tolerance=0.0,
        max_iterations=iterations,
    )
    assert (found.iterations, found.converged) == (iterations, False)
    assert found.point.value == pytest.approx(float(a @ (found.point.x - 1) ** 4))
    assert found.point.value < float(a.sum()) or not iterations


def test_a_search_that_begins_at_the_minimum_ends_there():
    zero = torch.zeros(3, dtype=torch.float64)
    found = minimise(
        lambda x: (float(x @ x), 2 * x), zero, l1=zero, curvature=zero + 1, tolerance=0.0, max_iterations=9
    )
    assert found.converged
    assert torch.equal(found.point.x, zero)


def test_no_step_crosses_zero_where_there_is_a_penalty():
    """From 1 towards the minimum at -1, in steps that are far too long: the penalised variable halts at 0."""
    points = []

    def parabola(x: torch.Tensor) -> tuple[float, torch.Tensor]:
        points.append(x.tolist())
        return float((x + 1) @ (x + 1)) / 2, x + 1

    l1 = torch.tensor([0.25, 0.0]).double()
    found = minimise(
        parabola,
        torch.ones(2).double(),
        l1=l1,
        curvature=torch.ones(2).double() / 1.9,
        tolerance=1e-15,
        max_iterations=99,
    )
    assert points[1][0] == 0
    assert points[1][1] < 0
    torch.testing.assert_close(found.point.x, torch.tensor([-0.75, -1.0]).double())


def test_the_search_ends_where_the_value_hardly_falls():
    """A quartic falls by a share in every iteration; the search ends once that share is small."""
    a = draw(50).exp()
    values = []

    def quartic(x: torch.Tensor) -> tuple[float, torch.Tensor]:
        values.append(float(a @ (x - 1) ** 4) + 1.0)
        return values[-1], 4 * a * (x - 1) ** 3

    zero = torch.zeros_like(a)
    ends = [
        minimise(quartic, zero, l1=zero, curvature=zero + 1, tolerance=tolerance, max_iterations=500)
        for tolerance in (0.1, 1e-6)
    ]
    assert all(end.converged for end in ends)
    assert ends[0].iterations < ends[1].iterations < 500
    assert ends[0].point.value > ends[1].point.value


def test_a_search_from_a_value_that_is_no_number_does_not_converge():
    search = minimise(
        lambda x: (math.nan, torch.full_like(x, math.nan)), torch.zeros(2, dtype=torch.float64),
        l1=torch.zeros(2, dtype=torch.float64), curvature=torch.ones(2, dtype=torch.float64), tolerance=0.0,
        max_iterations=5,
    )  # fmt: skip
    assert not search.converged
