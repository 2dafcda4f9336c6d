"""What a resumed run has to know beside the weights: how far training has come, and the state of random numbers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Progress:
    """How far training has come.

    Attributes:
        epoch: epochs that are done.
        window: windows of the current epoch that are done.
        step: windows of all epochs that are done.
        tokens: tokens seen so far.
        best: the best validation perplexity so far; of labels the best measure, negative.
        stale: checks since the best one.
        seconds: wall-clock time of training, checks included.
        step_seconds: wall-clock time of estimation and steps alone.
        finished: whether training is over.
        nats, trained: −Σ log p of the tokens trained on since the last check, and their number.
        checks: at every check in the descent: epoch, tokens and seconds so far, and the perplexities of train (over the
            tokens since the check before, as they were learnt from) and valid.
        metrics: of labels and vectors, the figures of the last step by their tags in TensorBoard.
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
    nats: float = 0.0
    trained: int = 0
    checks: list[dict[str, float]] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def best_epoch(self) -> float | None:
        """The epoch of the best check, with its part that was done; None without checks, 0 where none was better."""
        if not self.checks:
            return None
        check = min(self.checks, key=lambda check: check["valid"])
        return check["epoch"] if check["valid"] <= self.best else 0.0

    def note_step(self, tokens: int, perplexity: float, seconds: float) -> None:
        """A step is taken on a window of so many tokens, which had this perplexity."""
        self.window += 1
        self.step += 1
        self.tokens += tokens
        self.nats += tokens * math.log(perplexity)
        self.trained += tokens
        self.step_seconds += seconds

    def note_check(self, epoch: float, valid: float) -> None:
        """Add to ``checks``."""
        train = math.exp(min(self.nats / self.trained, 700))
        seconds = round(self.seconds, 3)
        self.checks.append({"epoch": epoch, "tokens": self.tokens, "seconds": seconds, "train": train, "valid": valid})
        self.nats, self.trained = 0.0, 0


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The state of PyTorch's random numbers, on the CPU and on a device."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    """Draw from a `random_state` on; one of another device has no numbers for this one."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
