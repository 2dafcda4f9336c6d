"""The types in which numbers are multiplied and summed."""

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """Convert a tensor to float32, unless it is float64, so that probabilities are summed accurately."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def autocast_type(x: Tensor) -> torch.dtype:
    """The type of autocast where it is on, else the tensor's own: autocast does not reach a function's gradient."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


def in_autocast_type(*tensors: Tensor) -> list[Tensor]:
    """The tensors in the `autocast_type`."""
    return [x.to(autocast_type(x)) for x in tensors]
