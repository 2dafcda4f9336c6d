"""How not to wait for a GPU: what the CPU knows stays known, and what is likely is tested when a step is over."""

import functools
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

T = TypeVar("T")

STAGED = 1 << 16
"""How many bytes of pageable memory CUDA copies without waiting, as its programming guide says."""


def once_for_each(function: Callable[[Tensor], T]) -> Callable[[Tensor], T]:
    """A function of a tensor that is computed again only where the tensor is another one, or has changed."""
    results: MutableMapping[Tensor, tuple[int, T]] = WeakTensorKeyDictionary()

    @functools.wraps(function)
    def remembered(tensor: Tensor) -> T:
        if tensor.is_inference():  # which has no version
            return function(tensor)
        if tensor not in results or results[tensor][0] != tensor._version:
            results[tensor] = tensor._version, function(tensor)
        return results[tensor][1]

    return remembered


_known: MutableMapping[Tensor, tuple[int, Tensor]] = WeakTensorKeyDictionary()
"""The values of tensors on a GPU, and the version that has them."""


def on_host(tensor: Tensor) -> Tensor:
    """The values of a tensor on the CPU. A GPU is waited for once, and not at all where they are `sent` from there."""
    if tensor.device.type == "cpu":
        return tensor
    if (values := _current(tensor)) is None:
        values = tensor.cpu()
        _know(tensor, values)
    return values


def _current(tensor: Tensor) -> Tensor | None:
    """The known values of a tensor on a GPU, as far as it still has them."""
    version, values = _known.get(tensor, (None, tensor))
    return None if version is None or version != tensor._version else values


def _know(tensor: Tensor, values: Tensor) -> None:
    if not (tensor.device.type == "cpu" or tensor.is_inference()):
        _known[tensor] = tensor._version, values


def sent(values: Tensor, device: torch.device) -> Tensor:
    """Values of the CPU, which must not change, on a device, which is not waited for."""
    if values.device.type != "cpu":
        return values.to(device)
    large = device.type == "cuda" and values.nbytes > STAGED
    there = (values.pin_memory() if large else values).to(device, non_blocking=True)
    _know(there, values)
    return there


def own_copy(tensor: Tensor) -> Tensor:
    """A contiguous copy without history."""
    copy = tensor.detach().clone(memory_format=torch.contiguous_format)
    if (values := _current(tensor)) is not None:
        _know(copy, values)
    return copy


@dataclass
class Trust:
    """What a step believes of a GPU, to test it when all is computed."""

    inside: Tensor | None = None
    """(N,) bool, which tokens are expected to have part in the loss, all the same one; None: all."""
    facts: list[Tensor] = field(default_factory=list)
    """() bool each, what `holds` has believed."""


_trust: ContextVar[Trust | None] = ContextVar("trust", default=None)


@contextmanager
def trusting(trust: Trust) -> Iterator[None]:
    """A context in which `holds` believes what it is asked of a GPU, and adds it to the facts.

    Whoever opens it has to ask afterwards whether they all held. Where one did not, what was computed is worth nothing.
    """
    token = _trust.set(trust)
    try:
        yield
    finally:
        _trust.reset(token)


def trusted(device: torch.device) -> Trust | None:
    """The `Trust` of this context; None outside of one, and on a CPU, which need not be waited for."""
    return None if device.type == "cpu" else _trust.get()


def holds(fact: Tensor) -> bool:
    """Whether a () bool is true, as it almost always is; see `trusting`."""
    trust = trusted(fact.device)
    if trust is None:
        return bool(fact)
    trust.facts.append(fact)
    return True
