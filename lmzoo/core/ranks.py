"""The process group of a run: this process alone, or the processes started by torchrun, each with a rank.

All perform the same operations in the same order, each on its share of the rows. Only rank 0 writes and prints.
"""

import atexit
import contextlib
import datetime
import logging
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from lmzoo.core.errors import UserError, one_line

PATIENCE = 600
"""The timeout for other ranks in seconds, unless ``LMZOO_PATIENCE`` is set."""

GONE = ("gloo", "NCCL", "Connection", "Timed out", "Broken pipe", "timeout", "socket")
"""Substrings of PyTorch's errors when another rank does not answer."""


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """A context with a group of the processes of torchrun; raise a UserError if one of them does not answer."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    if not dist.is_initialized():
        _init_process_group()
    try:
        yield
    except RuntimeError as error:
        if not any(phrase in str(error) for phrase in GONE):
            raise
        raise UserError(f"rank {rank()}: another rank has ended, or did not answer within {_patience()}",
                        "see its output; the same command resumes from the last checkpoint") from None  # fmt: skip


def _patience() -> datetime.timedelta:
    text = os.environ.get("LMZOO_PATIENCE", str(PATIENCE))
    with contextlib.suppress(ValueError, OverflowError):
        if (patience := datetime.timedelta(seconds=float(text))) >= datetime.timedelta(seconds=1):
            return patience
    raise UserError(f"LMZOO_PATIENCE={text}: not a number of seconds", "write 600 for ten minutes")


def _init_process_group() -> None:
    address = ":".join(os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
    patience = _patience()
    try:
        gpus = torch.cuda.is_available() and dist.is_nccl_available()
        dist.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo", timeout=patience)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"the ranks cannot connect at {address} ({one_line(error)[:120]})",
                        "start them by torchrun; is the port in use?") from None  # fmt: skip
    atexit.register(dist.destroy_process_group)  # not earlier, since a sweep may have further runs
    if not is_main():
        logging.getLogger("lmzoo").setLevel(logging.ERROR)


def rank() -> int:
    """The rank of this process."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this is the process that writes and prints."""
    return rank() == 0


def all_reduce(numbers: Tensor) -> Tensor:
    """Sum tensors over the ranks, in place."""
    if world_size() > 1:
        dist.all_reduce(numbers)
    return numbers


def all_gather(value: Any) -> list[Any]:
    """The values of all ranks, by rank."""
    if world_size() == 1:
        return [value]
    values = [None] * world_size()
    dist.all_gather_object(values, value)
    return values


def broadcast(value: Any) -> Any:
    """The value of rank 0."""
    return all_gather(value)[0]


def any_rank(*facts: bool) -> list[bool]:
    """For each fact, whether it holds on any rank."""
    return (all_reduce(torch.tensor(facts, dtype=torch.int32)) > 0).tolist()


def require_same(what: str, value: Any) -> None:
    """Raise a UserError if the value of a rank differs from that of rank 0."""
    values = all_gather(value)
    if unlike := [str(number) for number, other in enumerate(values) if other != values[0]]:
        raise UserError(f"rank {', '.join(unlike)}: has another {what} than rank 0", "start all with the same files")
