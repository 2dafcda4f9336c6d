"""Optimizers and learning-rate schedules that configuration can name, all of them PyTorch's."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from torch.nn import Parameter
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from lmzoo.core.options import BelowOne, Count, NonNegative, Probability
from lmzoo.core.registry import Registry

optimizers = Registry("optimizer")
schedules = Registry("schedule")


@optimizers.register("adam")
def adam(
    *, parameters: Sequence[Parameter], lr: NonNegative, beta1: BelowOne, beta2: BelowOne, weight_decay: NonNegative
) -> Optimizer:
    """Kingma & Ba (2015).

    Args:
        lr: the learning rate, which the schedule changes.
        beta1: the decay of the average of the gradients.
        beta2: the decay of the average of their squares.
        weight_decay: so much of each weight is added to its gradient, as an L2 penalty.
    """
    betas = (float(beta1), float(beta2))
    return _fused(Adam, parameters, lr=float(lr), betas=betas, weight_decay=weight_decay)


@optimizers.register("adamw")
def adamw(
    *, parameters: Sequence[Parameter], lr: NonNegative, beta1: BelowOne, beta2: BelowOne, weight_decay: NonNegative
) -> Optimizer:
    """Loshchilov & Hutter (2019).

    Args:
        lr, beta1, beta2: see `adam`.
        weight_decay: a step takes lr times so much of each weight off it, whatever its gradient.
    """
    betas = (float(beta1), float(beta2))
    return _fused(AdamW, parameters, lr=float(lr), betas=betas, weight_decay=weight_decay)


@optimizers.register("sgd")
def sgd(
    *, parameters: Sequence[Parameter], lr: NonNegative, momentum: BelowOne, weight_decay: NonNegative
) -> Optimizer:
    """Stochastic gradient descent, with Polyak's momentum where it is above 0.

    Args:
        lr, weight_decay: see `adam`.
        momentum: the decay of the sum of the gradients that a step follows; 0: it follows the gradient.
    """
    return _fused(SGD, parameters, lr=float(lr), momentum=momentum, weight_decay=weight_decay)


@optimizers.register("adagrad")
def adagrad(*, parameters: Sequence[Parameter], lr: NonNegative, weight_decay: NonNegative) -> Optimizer:
    """Duchi, Hazan & Singer (2011): each weight's rate falls with the gradients it has had.

    Args:
        lr, weight_decay: see `adam`.
    """
    return _fused(Adagrad, parameters, on=["cpu"], lr=float(lr), weight_decay=weight_decay)


@schedules.register("constant")
def constant(*, optimizer: Optimizer, steps_per_epoch: int, steps: int, warmup: Count) -> LRScheduler:
    """The optimizer's rate throughout.

    Args:
        warmup: steps at the beginning in which the rate grows linearly.
    """
    return LambdaLR(optimizer, lambda step: _warm(step, warmup))


@schedules.register("step")
def step(
    *, optimizer: Optimizer, steps_per_epoch: int, steps: int, hold_epochs: Count, factor: Probability
) -> LRScheduler:
    """The optimizer's rate for ``hold_epochs`` epochs, then times ``factor`` at the start of each epoch.

    Args:
        hold_epochs: epochs at the full rate.
        factor: the rate is multiplied by this at the start of each epoch after them.
    """
    return LambdaLR(optimizer, lambda step: factor ** max(0, step // steps_per_epoch + 1 - hold_epochs))


@schedules.register("cosine")
def cosine(*, optimizer: Optimizer, steps_per_epoch: int, steps: int, warmup: Count, floor: Probability) -> LRScheduler:
    """Half a cosine from the optimizer's rate, after ``warmup`` steps, to ``floor`` times it where training ends.

    Args:
        warmup: see `constant`.
        floor: the share of the full rate at the last step.
    """

    def rate(step: int) -> float:
        progress = min(1.0, max(0, step - warmup) / max(1, steps - warmup))
        return _warm(step, warmup) * (floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2)

    return LambdaLR(optimizer, rate)


@schedules.register("plateau")
def plateau(
    *, optimizer: Optimizer, steps_per_epoch: int, steps: int, factor: BelowOne, patience: Count
) -> ReduceLROnPlateau:
    """Times ``factor`` when validation has not improved for more than ``patience`` checks.

    Args:
        factor: the rate is multiplied by this when validation has stalled.
        patience: so many checks without improvement are allowed.
    """
    return ReduceLROnPlateau(optimizer, factor=factor, patience=patience, threshold=0.0)


def _warm(step: int, warmup: int) -> float:
    return min(1.0, (step + 1) / (warmup + 1))


def _fused(
    make: Callable[..., Optimizer], parameters: Sequence[Parameter], on: Sequence[str] = ("cpu", "cuda"), **options: Any
) -> Optimizer:
    """An optimizer whose step is one pass over the weights on these devices, wherever a checkpoint comes from."""
    fused = all(parameter.device.type in on for parameter in parameters)
    optimizer = make(parameters, fused=fused, **options)
    optimizer.register_load_state_dict_pre_hook(
        lambda _, saved: {**saved, "param_groups": [{**group, "fused": fused} for group in saved["param_groups"]]}
    )
    return optimizer
