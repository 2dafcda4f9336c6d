"""The precision in which probabilities are summed."""

import torch
from torch import Tensor


def single(x: Tensor) -> Tensor:
    """The tensor in single precision, or in double precision where it is so already: probabilities are summed there."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
