"""One of several ranks on simulated devices, which torchrun starts; see `test_cuda.py`.

It trains each of a file of configurations. In the fourth step rank 1 alone finds that it was wrong to trust.
It writes how often the third step waited for the device, and whether the fourth was taken again.
"""

import json
import sys
from pathlib import Path
from typing import Any

import simulated
import torch

from lmzoo.core import ranks
from lmzoo.numerics.gpu_sync import DeferredChecks
from lmzoo.runs.configuration import Configuration
from lmzoo.training import descent
from lmzoo.training.session import train

step = descent.Descent.step
steps: list[tuple[int, bool]] = []


def counted(self: descent.Descent, *arguments: Any) -> dict[str, float]:
    with simulated.waits() as places:
        result = step(self, *arguments)
    steps.append((places.total(), self.cautious > 0))
    return result


def doubting(*arguments: Any) -> DeferredChecks:
    doubts = ranks.rank() == 1 and len(steps) == 3
    return DeferredChecks(*arguments, facts=[torch.full((), not doubts, device="cuda")])


descent.Descent.step, descent.DeferredChecks = counted, doubting
found = []
with ranks.process_group():
    for config in json.loads(Path(sys.argv[1]).read_text()):
        steps.clear()
        train(Configuration(config))
        found.append((steps[2][0], steps[2][1], steps[3][1]))
    Path(f"steps-{ranks.rank()}.json").write_text(json.dumps(found))
