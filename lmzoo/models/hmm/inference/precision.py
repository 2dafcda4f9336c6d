"""The precision in which probabilities are summed, and the least of them."""

import torch
from torch import Tensor


def single(x: Tensor) -> Tensor:
    """The tensor in single precision, or in double precision where it is so already: probabilities are summed there."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def least_probability(dtype: torch.dtype) -> float:
    """A number that stands for a probability of 0, large enough to divide a gradient by it."""
    return torch.finfo(dtype).tiny / torch.finfo(dtype).eps
