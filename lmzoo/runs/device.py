"""Selection of the device for computation."""

import os

import torch

from lmzoo.core import ranks
from lmzoo.core.errors import UserError


def resolve_device(name: str) -> torch.device:
    """Resolve ``auto`` (CUDA if available, else CPU), ``cpu``, ``cuda``, ``cuda:N`` or ``mps``.

    With several ranks on a machine, ``cuda`` is the GPU of the local rank.

    Raises: UserError, listing the available devices, if the device is absent.
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
        raise UserError(f"device={name}: no such device on this machine", f"choose from: auto, {', '.join(present)}")
    if name.startswith("cuda"):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read once; CUDA is not deterministic without it
        torch.backends.cudnn.allow_tf32 = False  # otherwise recurrent layers round float32 to 10 bits
        if ":" in name:
            torch.cuda.set_device(name)  # for operations without a device argument, such as communication between ranks
    return torch.device(name)
