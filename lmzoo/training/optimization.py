"""Optimizers and learning-rate schedules of PyTorch for the configuration, and their steps."""

import math
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from lmzoo.core.errors import UserError
from lmzoo.core.options import BelowOne, Count, NonNegative, Options, Probability, configured
from lmzoo.core.registry import Registry
from lmzoo.numerics.averaging import Average

Parameters = Sequence[Parameter] | Sequence[dict[str, Any]]
"""Parameters, or parameter groups with their own options, as for `torch.optim.Optimizer`."""

optimizers = Registry("optimizer")
schedules = Registry("schedule")


class OptimizerOptions(Options):
    lr: NonNegative
    """learning rate, which the schedule changes."""
    weight_decay: NonNegative = 0.0
    """L2 penalty: this times each weight is added to its gradient."""


class AdamOptions(OptimizerOptions):
    lr: NonNegative = 0.003
    beta1: BelowOne = 0.9
    """decay of the moving average of gradients."""
    beta2: BelowOne = 0.999
    """decay of the moving average of squared gradients."""


@optimizers.register("adam")
@configured(AdamOptions)
def adam(parameters: Parameters, options: AdamOptions) -> Optimizer:
    """Adam, Kingma & Ba (2015)."""
    return _fused(Adam, parameters, options, betas=(float(options.beta1), float(options.beta2)))


class AdamWOptions(AdamOptions):
    weight_decay: NonNegative = 0.0
    """decoupled weight decay: a step subtracts lr times this times each weight."""


@optimizers.register("adamw")
@configured(AdamWOptions)
def adamw(parameters: Parameters, options: AdamWOptions) -> Optimizer:
    """Adam with decoupled weight decay, Loshchilov & Hutter (2019)."""
    return _fused(AdamW, parameters, options, betas=(float(options.beta1), float(options.beta2)))


class SGDOptions(OptimizerOptions):
    lr: NonNegative = 10.0
    momentum: BelowOne = 0.0
    """decay of the sum of gradients that a step follows; 0: no momentum."""


@optimizers.register("sgd")
@configured(SGDOptions)
def sgd(parameters: Parameters, options: SGDOptions) -> Optimizer:
    """Stochastic gradient descent, with Polyak's momentum where it is above 0."""
    return _fused(SGD, parameters, options, momentum=options.momentum)


class AdagradOptions(OptimizerOptions):
    lr: NonNegative = 0.03


@optimizers.register("adagrad")
@configured(AdagradOptions)
def adagrad(parameters: Parameters, options: AdagradOptions) -> Optimizer:
    """Adagrad, Duchi, Hazan & Singer (2011): each weight's rate decreases with its accumulated squared gradients."""
    return _fused(Adagrad, parameters, options, on=["cpu"])


class WarmupOptions(Options):
    warmup: Count = 0
    """number of initial steps in which the rate grows linearly."""


@schedules.register("constant")
@configured(WarmupOptions)
def constant(optimizer: Optimizer, steps_per_epoch: int, steps: int, options: WarmupOptions) -> LRScheduler:
    """Constant learning rate, after ``warmup`` steps."""
    return LambdaLR(optimizer, lambda step: _warm(step, options.warmup))


@schedules.register("linear")
def linear(optimizer: Optimizer, steps_per_epoch: int, steps: int) -> LRScheduler:
    """Linear decay of the learning rate to 0 after the last step."""
    return LambdaLR(optimizer, lambda step: 1 - step / max(1, steps))


class StepOptions(Options):
    hold_epochs: Count = 4
    """number of epochs at the full rate."""
    factor: Probability = 0.5
    """factor of the rate at the start of each later epoch."""


@schedules.register("step")
@configured(StepOptions)
def step(optimizer: Optimizer, steps_per_epoch: int, steps: int, options: StepOptions) -> LRScheduler:
    """Constant learning rate for ``hold_epochs`` epochs, then times ``factor`` at the start of each epoch."""
    hold, factor = options.hold_epochs, options.factor
    return LambdaLR(optimizer, lambda step: factor ** max(0, step // steps_per_epoch + 1 - hold))


class CosineOptions(WarmupOptions):
    floor: Probability = 0.0
    """final rate as a fraction of the full rate."""


@schedules.register("cosine")
@configured(CosineOptions)
def cosine(optimizer: Optimizer, steps_per_epoch: int, steps: int, options: CosineOptions) -> LRScheduler:
    """Cosine decay of the learning rate, after ``warmup`` steps, to ``floor`` times it at the end of training."""
    warmup, floor = options.warmup, options.floor

    def rate(step: int) -> float:
        progress = min(1.0, max(0, step - warmup) / max(1, steps - warmup))
        return _warm(step, warmup) * (floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2)

    return LambdaLR(optimizer, rate)


class PlateauOptions(Options):
    factor: BelowOne = 0.25
    """factor of the rate when validation has stalled."""
    patience: Count = 0
    """number of checks without improvement that are tolerated."""


@schedules.register("plateau")
@configured(PlateauOptions)
def plateau(optimizer: Optimizer, steps_per_epoch: int, steps: int, options: PlateauOptions) -> ReduceLROnPlateau:
    """Learning rate times ``factor`` when validation has not improved for more than ``patience`` checks."""
    return ReduceLROnPlateau(optimizer, factor=options.factor, patience=options.patience, threshold=0.0)


def _warm(step: int, warmup: int) -> float:
    return min(1.0, (step + 1) / (warmup + 1))


def _fused(
    make: Callable[..., Optimizer], parameters: Parameters, options: OptimizerOptions, *,
    on: Sequence[str] = ("cpu", "cuda"), **more: Any,
) -> Optimizer:  # fmt: skip
    """Build an optimizer, fused if all parameters are on the devices ``on``, also after loading a checkpoint."""
    groups = [part["params"] if isinstance(part, dict) else [part] for part in parameters]
    fused = all(parameter.device.type in on for group in groups for parameter in group)
    optimizer = make(parameters, lr=float(options.lr), weight_decay=options.weight_decay, fused=fused, **more)
    optimizer.register_load_state_dict_pre_hook(
        lambda _, saved: {**saved, "param_groups": [{**group, "fused": fused} for group in saved["param_groups"]]}
    )
    return optimizer


class NotFinite(Exception):  # noqa: N818 - the trainer turns it into a UserError
    """A loss or gradient is infinite or NaN. The parameters have not changed in the step."""


class Optimization:
    """Gradient steps: an optimizer, its schedule, and an average of the weights.

    Args:
        parameters: trainable parameters, or groups of them.
        optimizer, schedule: the options of these groups.
        clip: the maximum gradient norm; None: unlimited.
        average_decay: see `Average`.

    Attributes:
        parameters: all parameters of the optimizer.
    """

    def __init__(
        self, parameters: Parameters, optimizer: Mapping[str, Any], schedule: Mapping[str, Any], *,
        steps_per_epoch: int, steps: int, clip: float | None, average_decay: float | None,
    ):  # fmt: skip
        self.clip = math.inf if clip is None else clip
        self.optimizer: Optimizer = optimizers.build(optimizer, parameters=parameters)
        problem = None
        if not isinstance(self.optimizer, Optimizer):
            problem = "makes no torch.optim.Optimizer"
        elif not all(isinstance(group.get("lr"), float | int | Tensor) for group in self.optimizer.param_groups):
            problem = "a group of parameters has no lr, which schedules change"
        else:
            try:
                signature(self.optimizer.step).bind()
            except TypeError:
                problem = "step() needs a closure, and gets none"
        if problem:
            raise UserError(f"optimizer={optimizer['name']}: {problem}", "choose another, or fix its code")
        self.parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        self.schedule = schedules.build(
            schedule, optimizer=self.optimizer, steps_per_epoch=steps_per_epoch, steps=steps
        )
        if not isinstance(self.schedule, LRScheduler):
            raise UserError(f"schedule={schedule['name']}: makes no LRScheduler of torch", "fix its code")
        self.average = Average(self.parameters, average_decay)

    def backward(self, loss: Tensor) -> Tensor:
        """Compute the gradient of a loss. Returns: its norm."""
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        return get_total_norm([parameter.grad for parameter in self.parameters if parameter.grad is not None])

    def step(self, loss: float, norm: Tensor, length: float, share: tuple[int, int] = (1, 1)) -> dict[str, float]:
        """Update the parameters by the gradient, of norm ``norm`` = ``length``, at a fraction ``share`` of the rate.

        Returns: learning rate and gradient norm, by TensorBoard tag. Raises: NotFinite, before any parameter changes.
        """
        for what, value in (("loss", loss), ("gradient", length)):
            if not math.isfinite(value):
                raise NotFinite(f"the {what} is {value}")
        if length > self.clip:
            clip_grads_with_norm_(self.parameters, self.clip, norm)
        groups = self.optimizer.param_groups
        rates = [group["lr"] for group in groups]
        try:
            for group in groups:
                group["lr"] = group["lr"] * share[0] / share[1]
            self.optimizer.step()
        finally:
            for group, rate in zip(groups, rates, strict=True):
                group["lr"] = rate
        if not isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step()
        return {"train/learning_rate": float(rates[0]), "train/gradient_norm": length}

    def note_validation(self, loss: float) -> None:
        """Pass a validation loss, where lower is better, to the schedule."""
        if isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step(loss)

    def state_dict(self) -> dict[str, Any]:
        """The state that later steps depend on, besides the parameters."""
        return {name: getattr(self, name).state_dict() for name in ("optimizer", "schedule", "average")}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore `state_dict`."""
        for name in ("optimizer", "schedule", "average"):
            getattr(self, name).load_state_dict(saved[name])
