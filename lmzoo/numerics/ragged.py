"""Ranges of unequal length, one after another."""

import torch
from torch import Tensor


def ranges(first: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers first, first + 1, … of N ranges of so many each, both (N,) int64.

    Ranges from 4 and 0 of 2 and 3 numbers give ranges 0 0 1 1 1 and numbers 4 5 0 1 2.

    Returns: (M,) which range each number is of, and (M,) the numbers.
    """
    which = torch.arange(len(count), device=count.device).repeat_interleave(count)
    return which, torch.arange(len(which), device=count.device) + (first - count.cumsum(0) + count)[which]
