"""Avoid GPU synchronization: cache values known on the CPU, and defer checks to the end of a step."""

from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

T = TypeVar("T")

STAGED = 1 << 16
"""How many bytes of pageable memory CUDA copies without waiting, as its programming guide says."""


class TensorCache(Generic[T]):
    """Cache of a function of a tensor, computed again where the tensor is another one or has changed."""

    def __init__(self, function: Callable[[Tensor], T]):
        self.function = function
        self.results: MutableMapping[Tensor, tuple[int, T]] = WeakTensorKeyDictionary()

    def __call__(self, tensor: Tensor) -> T:
        if (result := self.lookup(tensor)) is None:
            result = self.function(tensor)
            self.store(tensor, result)
        return result

    def lookup(self, tensor: Tensor) -> T | None:
        """What was computed of the tensor as it is now, if anything was."""
        version, result = self.results.get(tensor, (None, None))
        return None if version is None or version != tensor._version else result

    def store(self, tensor: Tensor, result: T) -> None:
        """Store what was computed of the tensor as it is now, unless it is of inference mode and has no version."""
        if not tensor.is_inference():
            self.results[tensor] = tensor._version, result


_host_copies = TensorCache(Tensor.cpu)
"""The values of tensors on a GPU."""


def on_host(tensor: Tensor) -> Tensor:
    """The values of a tensor on the CPU, cached: a GPU is synchronized at most once, never after `to_device_async`."""
    return tensor if tensor.device.type == "cpu" else _host_copies(tensor)


def to_device_async(values: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor, which must not change afterwards, to a device without synchronizing."""
    if values.device.type != "cpu":
        return values.to(device)
    large = device.type == "cuda" and values.nbytes > STAGED
    there = (values.pin_memory() if large else values).to(device, non_blocking=True)
    if device.type != "cpu":
        _host_copies.store(there, values)
    return there


def own_copy(tensor: Tensor) -> Tensor:
    """A contiguous copy without history."""
    copy = tensor.detach().clone(memory_format=torch.contiguous_format)
    if (values := _host_copies.lookup(tensor)) is not None:
        _host_copies.store(copy, values)
    return copy


@dataclass
class DeferredChecks:
    """Conditions assumed during a step on a GPU, to be checked when it is over."""

    inside: Tensor | None = None
    """(N,) bool, which tokens are expected to have part in the loss, all the same one; None: all."""
    facts: list[Tensor] = field(default_factory=list)
    """() bool each, what `assume` has assumed."""


_deferred: ContextVar[DeferredChecks | None] = ContextVar("deferred", default=None)


@contextmanager
def defer_checks(checks: DeferredChecks) -> Iterator[None]:
    """A context in which `assume` returns True for a condition on a GPU, and records it.

    The caller checks the conditions afterwards; where one is false, the results are invalid.
    """
    token = _deferred.set(checks)
    try:
        yield
    finally:
        _deferred.reset(token)


def deferred_checks(device: torch.device) -> DeferredChecks | None:
    """The `DeferredChecks` of this context; None outside of one, and on a CPU, which need not be waited for."""
    return None if device.type == "cpu" else _deferred.get()


def assume(fact: Tensor) -> bool:
    """Whether a () bool is true; inside `defer_checks` assumed true, and checked later."""
    checks = deferred_checks(fact.device)
    if checks is None:
        return bool(fact)
    checks.facts.append(fact)
    return True
