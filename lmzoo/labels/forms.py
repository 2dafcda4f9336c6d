"""What the tensors of a `State` must be: their numbers, and their sizes, which hang together."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.labels.model import unpacked

Size = str | int
"""A number; a name, which stands for the same number wherever it is; or a name and one more, such as ``K+1``."""


@dataclass(frozen=True)
class Form:
    """What a tensor must be.

    Attributes:
        dtype: of its numbers.
        shape: of each dimension the size.
        below: whole numbers are 0 or more, and below the product of these sizes. Others are finite.
        least: of all numbers.
        logarithms: whether they may be -∞.
        texts: whether it is `packed` texts, and ``shape`` is how many; "distinct": no text is there twice.
    """

    dtype: torch.dtype
    shape: tuple[Size, ...]
    below: tuple[Size, ...] = ()
    least: float = -math.inf
    logarithms: bool = False
    texts: bool | str = False


Forms = Mapping[str, Form]


def texts(number: Size) -> Form:
    """So many `packed` texts."""
    return Form(torch.uint8, (number,), texts=True)


def distinct(number: Size) -> Form:
    """So many `packed` texts, all of them different."""
    return Form(torch.uint8, (number,), texts="distinct")


def whole(*shape: Size, below: tuple[Size, ...]) -> Form:
    """int64 from 0, below the product of some sizes."""
    return Form(torch.int64, shape, below)


def real(*shape: Size, least: float = -math.inf, dtype: torch.dtype = torch.float32) -> Form:
    """Finite numbers."""
    return Form(dtype, shape, least=least)


def fitting(state: Mapping[str, Tensor], forms: Forms, **sizes: int) -> dict[str, int]:
    """Compare tensors with their forms, one after the other; a name has the size that it has first.

    Args:
        sizes: those that are known before.

    Returns: all sizes.

    Raises: UserError for a tensor that is missing or another.
    """
    for name, form in forms.items():
        if name not in state:
            raise UserError(f"has no {name}")
        value = state[name]
        if value.dtype != form.dtype or value.ndim != len(form.shape):
            raise UserError(f"{name} is {_told(value.dtype, value.shape)}, and must be {_told(form.dtype, form.shape)}")
        found = (_texts(name, value, form.texts == "distinct"),) if form.texts else tuple(value.shape)
        for size, number in zip(form.shape, found, strict=True):
            if isinstance(size, str) and not size.endswith("+1"):
                sizes.setdefault(size, number)
        if found != (expected := tuple(_number(size, sizes) for size in form.shape)):
            what = "texts" if form.texts else "numbers"
            raise UserError(f"{name} has {_by(found)} {what}, and must have {_by(expected)}")
        if not form.texts and value.numel():
            _check_numbers(name, value, form, sizes)
    return sizes


def saved_options(line: str) -> dict[str, Any]:
    """The options of a model that a packed text holds as JSON; a UserError where it is none."""
    try:
        options = json.loads(line)
    except (ValueError, RecursionError):
        options = None
    if not isinstance(options, dict):
        raise UserError("the options of a model are none")
    return options


def _number(size: Size, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    name, _, more = size.partition("+")
    return sizes[name] + int(more or 0)


def _texts(name: str, data: Tensor, different: bool) -> int:
    try:
        found = unpacked(data)
    except UnicodeDecodeError:
        raise UserError(f"{name} is no text") from None
    if different and len({*found}) < len(found):
        raise UserError(f"{name} has a text twice")
    return len(found)


def _check_numbers(name: str, value: Tensor, form: Form, sizes: Mapping[str, int]) -> None:
    if value.dtype == torch.bool:
        return
    low, high = (float(end) for end in value.aminmax())  # NaN where there is one
    least = 0 if form.below else form.least
    most = math.prod(_number(size, sizes) for size in form.below) - 1 if form.below else math.inf
    finite = math.isfinite(high) and (math.isfinite(low) or form.logarithms)
    if not finite or low < least or high > most:
        bounds = f", and must have 0 to {most}" if form.below else ""
        raise UserError(f"{name} has numbers from {low:g} to {high:g}{bounds}")


def _told(dtype: torch.dtype, shape: tuple[Size, ...] | torch.Size) -> str:
    return f"({', '.join(map(str, shape))}) of {str(dtype).removeprefix('torch.')}"


def _by(sizes: tuple[int, ...]) -> str:
    return " × ".join(f"{size:,}" for size in sizes) or "one"
