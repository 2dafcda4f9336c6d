"""The comparison of tensors with the shapes of docstrings."""

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from shapes import compared, promise, shapes
from torch import Tensor

HERE = Path(__file__)


class Pair(NamedTuple):
    """Two tensors."""

    left: Tensor
    """(N, 2) numbers."""
    right: Tensor
    """(N,) int64 places."""


def scores(x: Tensor, weight: Tensor) -> Tensor:
    """(N, d) x and (V, d) weights -> (N, V) scores."""
    return (x @ weight.mT)[:, : len(weight)]


def last(x: Tensor) -> Tensor:
    """(N, d) x -> (N, d - 1) all but the last."""
    return x


def paired(numbers: Tensor, place: Tensor) -> Pair:
    """Numbers and their places.

    Args:
        numbers: (…, N, 2).
        place: (N,) int64.
    """
    return Pair(numbers[..., :1], place)


def watched(function, *arguments: Tensor) -> int:
    with compared(HERE) as tensors:
        function(*arguments)
    return tensors[function.__qualname__]


def test_tensors_of_the_shapes_of_a_docstring_pass():
    assert watched(scores, torch.zeros(3, 2), torch.zeros(5, 2)) == 3


@pytest.mark.parametrize(
    ("function", "arguments", "problem"),
    [
        (last, [torch.zeros(2)], r"x: \(2,\) torch.float32 is not \(N, d\)"),
        (scores, [torch.zeros(3, 2), torch.zeros(1, 5, 2)], r"weight: .* is not \(V, d\)"),
        (last, [torch.zeros(3, 2)], "result 0: d - 1 is 1, not 2"),
        (paired, [torch.zeros(4, 3, 2), torch.zeros(3)], r"place: \(3,\) torch.float32 is not \(N\)"),
        (paired, [torch.zeros(3, 2), torch.zeros(2, dtype=torch.int64)], "place: N is 3, not 2"),
        (paired, [torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64)], "Pair: left: 2 is 2, not 1"),
    ],
)
def test_other_tensors_are_reported(function, arguments: list[Tensor], problem: str):
    with pytest.raises(AssertionError, match=problem):
        watched(function, *arguments)


def test_what_is_no_shape_is_prose():
    text = "(Rabiner 1989, eq. 19) N(0, I/d), A(i, j), (Chen & Rosenfeld, 2000), (h or more, d), (2n, BT, (n - 1) m) x"
    assert [shape.sizes for shape in shapes(text)] == [("2*n", "B*T", "(n - 1)*m")]


def test_a_result_is_said_first_after_the_arrow_or_in_its_section():
    for docstring in ("(N,) sums of (N, d) x.", "(N, d) x -> (N,) sums.", "Sums of (N, d) x.\n\nReturns: (N,)."):
        said = promise(docstring)
        assert [shape.sizes for shape in said.results] == [("N",)]
        assert [shape.sizes for shape in said.others] == [("N", "d")]
