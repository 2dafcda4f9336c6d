"""How far training has come."""

import math
from dataclasses import dataclass


@dataclass
class Progress:
    """What a resumed run has to know beside the weights.

    Attributes:
        epoch: epochs that are done.
        window: windows of the current epoch that are done.
        step: windows of all epochs that are done.
        tokens: tokens seen so far.
        best: the best validation perplexity so far.
        stale: checks since the best one.
        seconds: wall-clock time of training, checks included.
        step_seconds: wall-clock time of estimation and steps alone.
        finished: whether training is over.
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
