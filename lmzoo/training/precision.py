"""The type of numbers in which a model's products are computed while it is trained."""

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
"""How many times as fast bfloat16 has to be. A CPU that is made for it is at least about twice as fast."""


def resolve_precision(options: TrainerOptions, model: LanguageModel, run: Run) -> TrainerOptions:
    """A copy of the options in which ``precision=auto`` is resolved to a type.

    A run goes on in the type that it began with. A new one gets bfloat16 where its model allows it and its device is
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
    """Whether a device multiplies clearly faster in bfloat16 than in float32. On a CPU this is measured.

    PyTorch calls bfloat16 supported on every CPU with AVX-512, also where it is slower for lack of instructions.
    """
    if device.type == "cuda":
        with torch.cuda.device(device):
            return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    single, half = (torch.ones(256, 256, dtype=dtype) for dtype in (torch.float32, torch.bfloat16))
    rounds = [(_seconds(single), _seconds(half)) for _ in range(ROUNDS)]  # by turns: disturbances meet both
    shortest, shortest_half = (min(times) for times in zip(*rounds, strict=True))
    return shortest >= CLEARLY * shortest_half


def _seconds(matrix: Tensor) -> float:
    """How long its product with itself takes."""
    started = time.perf_counter()
    torch.mm(matrix, matrix)
    return time.perf_counter() - started
