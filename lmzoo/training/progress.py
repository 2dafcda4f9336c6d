"""The state of training besides the weights: progress and random numbers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Progress:
    """The progress of training.

    Attributes:
        epoch: finished epochs.
        window: finished windows of the current epoch.
        step: finished windows of all epochs.
        tokens: tokens seen in all steps.
        best: the lowest validation perplexity until now; for labels the best measure, negated.
        stale: validations since the best one.
        seconds: wall-clock time of training, validations included.
        step_seconds: wall-clock time of estimation and steps only.
        finished: whether training is over.
        nats, trained: −Σ log p of the tokens trained on since the last validation, and their number.
        checks: of each validation in gradient descent: epoch, tokens and seconds, and the perplexities of valid and
            train (of the tokens since the validation before, each scored in its training step).
        metrics: for labels and vectors, the figures of the last step by TensorBoard tag.
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
        """The fractional epoch of the best validation; None without validations, 0 if the initial weights were best."""
        if not self.checks:
            return None
        check = min(self.checks, key=lambda check: check["valid"])
        return check["epoch"] if check["valid"] <= self.best else 0.0

    def note_step(self, tokens: int, perplexity: float, seconds: float) -> None:
        """Count a step on a window with this number of tokens and perplexity."""
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
    """The state of PyTorch's random number generators on the CPU and on a device."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore a `random_state`; that of a GPU only if it was saved on one."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)
