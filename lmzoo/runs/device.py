"""Where a model computes."""

import os

import torch

from lmzoo.core import ranks
from lmzoo.core.errors import UserError


def resolve_device(name: str) -> torch.device:
    """``auto`` (CUDA where there is one, else CPU), ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.

    Of the ranks on a machine each has a GPU of its own.

    Raises: UserError, listing the devices there are, for one that is absent.
    """
    present = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        present.append("mps")
    if name == "auto":
        name = "cuda" if len(present) > 1 and present[1].startswith("cuda") else "cpu"
    if name == "cuda" and ranks.world_size() > 1:
        if "LOCAL_RANK" not in os.environ:
            raise UserError("device=cuda: LOCAL_RANK does not say which GPU this rank has", "start by torchrun")
        name = f"cuda:{os.environ['LOCAL_RANK']}"
    if name not in present and not (name == "cuda" and "cuda:0" in present):
        raise UserError(f"device={name}: there is no such device here", f"there are: auto, {', '.join(present)}")
    if name.startswith("cuda"):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once, and CUDA is not deterministic without
        torch.backends.cudnn.allow_tf32 = False  # or float32 would have 10 bits of 23 in recurrent layers
        if ":" in name:
            torch.cuda.set_device(name)  # for what names no device, such as the ranks' communication
    return torch.device(name)
