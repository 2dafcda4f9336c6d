"""The state of PyTorch's random numbers, on the CPU and on the device of a model."""

from collections.abc import Mapping

import torch
from torch import Tensor


def random_state(device: torch.device) -> dict[str, Tensor]:
    """What `set_random_state` takes to draw the same numbers again."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    """Draw from a `random_state` on; one of another device has no numbers for this one."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
