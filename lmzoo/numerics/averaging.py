"""Averages of the weights over the steps of training, which are evaluated and saved in their place."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class Average:
    """An average a of the weights w after each step, once it has begun.

    Without a ``decay`` it is their mean: a ← a + (w − a) / n after n steps; Polyak & Juditsky (1992). With one it is
    the exponential average a ← d a + (1 − d) w, begun at the first w. So that random weights are soon forgotten, d is
    at most n / (n + 9), as in TensorFlow's ``ExponentialMovingAverage``.

    Args:
        weights: the parameters, which the average follows.
        decay: d; None for the mean.
    """

    def __init__(self, weights: Sequence[Tensor], decay: float | None):
        self.weights, self.decay = weights, decay
        self.steps = 0
        self.values: list[Tensor] = []

    @torch.no_grad()
    def update(self) -> None:
        """Take the weights after a step into the average."""
        self.steps += 1
        if self.steps == 1:
            self.values = [weight.detach().clone() for weight in self.weights]
        share = 1 / self.steps if self.decay is None else max(1 - self.decay, 9 / (self.steps + 9))
        for value, weight in zip(self.values, self.weights, strict=True):
            value.lerp_(weight, share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """A context in which the parameters have the averaged values, where there are any."""
        own = [weight.detach().clone() for weight in self.weights] if self.steps else []
        try:
            self._set(self.values)
            yield
        finally:
            self._set(own)

    @torch.no_grad()
    def _set(self, values: Sequence[Tensor]) -> None:
        for weight, value in zip(self.weights, values, strict=False):
            weight.copy_(value)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of it."""
        return {"steps": self.steps, "values": self.values}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from `state_dict`."""
        self.steps = saved["steps"]
        self.values = [value.to(weight) for value, weight in zip(saved["values"], self.weights, strict=False)]
