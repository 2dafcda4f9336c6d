"""The number type for matrix products in training."""

import dataclasses
import functools
import time

import torch
from torch import Tensor

from lmzoo.core import ranks
from lmzoo.core.options import call
from lmzoo.protocol.model import LanguageModel
from lmzoo.runs.directory import Run
from lmzoo.runs.trainer_options import TrainerOptions

ROUNDS = 10
CLEARLY = 1.2
"""The speed-up that bfloat16 must reach. CPUs with instructions for it reach at least about 2."""


def resolve_precision(options: TrainerOptions, model: LanguageModel, run: Run) -> TrainerOptions:
    """A copy of the options in which ``precision=auto`` is resolved to a type.

    A resumed run uses the type that it began with. A new one uses bfloat16 if its model supports it and its device is
    clearly faster in it, else float32.
    """
    if options.precision != "auto":
        return options
    if run.config_file.exists():
        with run.reading(run.config_file.name):
            begun = call(TrainerOptions, run.config()["trainer"], "trainer.").precision
            return dataclasses.replace(options, precision=begun)
    half = ranks.broadcast(model.autocast and faster_in_bfloat16(model.device))
    return dataclasses.replace(options, precision="bfloat16" if half else "float32")


@functools.cache
def faster_in_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies clearly faster in bfloat16 than in float32; measured on CPUs.

    PyTorch reports bfloat16 as supported on every CPU with AVX-512, even if it is slower for lack of instructions.
    """
    if device.type == "cuda":
        with torch.cuda.device(device):
            return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    single, half = (torch.ones(256, 256, dtype=dtype) for dtype in (torch.float32, torch.bfloat16))
    rounds = [(_seconds(single), _seconds(half)) for _ in range(ROUNDS)]  # alternate, so that disturbances affect both
    shortest, shortest_half = (min(times) for times in zip(*rounds, strict=True))
    return shortest >= CLEARLY * shortest_half


def _seconds(matrix: Tensor) -> float:
    """The time for a product of the matrix with itself, in seconds."""
    started = time.perf_counter()
    torch.mm(matrix, matrix)
    return time.perf_counter() - started
