"""How far training has come."""

import math
from dataclasses import dataclass


@dataclass
class Progress:
    """What a resumed run has to know beside the weights.

    Attributes:
        epoch: whole epochs that are done.
        window: windows of the current epoch that are done.
        step: windows that are done.
        tokens: that were seen.
        best: the best validation perplexity.
        stale: checks since then.
        seconds: wall-clock, checks included.
        step_seconds: of these, in estimation and steps.
    """

    epoch: int = 0
    window: int = 0
    step: int = 0
    tokens: int = 0
    best: float = math.inf
    stale: int = 0
    seconds: float = 0.0
    step_seconds: float = 0.0
    finished: bool = False
