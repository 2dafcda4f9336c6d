"""The process group of a run: this process alone, or those that torchrun has started, each of which has a rank.

All of them do the same in the same order, each with its share of the rows. Rank 0, the main process, writes and prints.
"""

import atexit
import contextlib
import datetime
import itertools
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.rendezvous import rendezvous

from lmzoo.core.errors import UserError, one_line

PATIENCE = 600
"""Seconds that a rank waits for another one, where ``LMZOO_PATIENCE`` does not say how many."""

NOTICE = 20
"""Seconds until a rank that waits says for which others."""

GONE = ("gloo", "NCCL", "Connection", "Timed out", "Broken pipe", "timeout", "socket")
"""PyTorch's errors have one of these where another rank does not answer."""

_waits = itertools.count()
"""The number of the next wait, which is the same on every rank."""
_stores: list[Any] = []
"""The store that all ranks read and write, which works while they wait for each other."""


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """A context in which those that torchrun has started are one group; a UserError where one does not answer."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    if not dist.is_initialized():
        _init_process_group()
    try:
        yield
    except RuntimeError as error:
        if not any(sign in str(error) for sign in GONE):
            raise
        raise UserError(f"rank {rank()}: another rank has ended, or did not answer within {_patience()}",
                        "see what it printed; the same command goes on from the last checkpoint") from None  # fmt: skip


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
        with _if_it_lasts(_say, f"waiting for the other ranks at {address}"):
            gpus = torch.cuda.is_available() and dist.is_nccl_available()
            store, number, size = next(rendezvous("env://", timeout=patience))
            backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
            dist.init_process_group(backend, store=store, rank=number, world_size=size, timeout=patience)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"the ranks do not meet at {address} ({one_line(error)[:120]})",
                        "start them by torchrun; is the port in use?") from None  # fmt: skip
    _stores[:] = [store]
    atexit.register(dist.destroy_process_group)  # not before, since a sweep has further runs
    if not is_main():
        logging.getLogger("lmzoo").setLevel(logging.ERROR)


def rank() -> int:
    """The number of this process."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_main() -> bool:
    """Whether this is the process that writes and prints."""
    return rank() == 0


def waiting() -> contextlib.AbstractContextManager[None]:
    """A context in which ranks wait for each other; after `NOTICE` seconds one line names those that do not come."""
    return _if_it_lasts(_name_absent, next(_waits)) if world_size() > 1 else contextlib.nullcontext()


@contextlib.contextmanager
def _if_it_lasts(notice: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """A context that gives notice once it has lasted for `NOTICE` seconds."""
    timer = threading.Timer(NOTICE, notice, arguments)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _name_absent(number: int) -> None:
    """Say which ranks do not wait, unless another rank that waits says it."""
    with contextlib.suppress(RuntimeError):  # the group has ended
        _stores[0].set(f"lmzoo/{number}/{rank()}", "waits")
        time.sleep(1)  # others have noticed by then, too
        waits = [_stores[0].check([f"lmzoo/{number}/{other}"]) for other in range(world_size())]
        absent = [str(other) for other in range(world_size()) if not waits[other]]
        if absent and waits.index(True) == rank():
            _say(f"waiting for rank {', '.join(absent)}")


def _say(line: str) -> None:
    print(f"rank {os.environ.get('RANK', 0)}: {line}", file=sys.stderr, flush=True)


def all_reduce(numbers: Tensor, operation: str = "SUM") -> Tensor:
    """The sum over the ranks, or their ``MAX``, in place of the numbers of each."""
    if world_size() > 1:
        with waiting():
            dist.all_reduce(numbers, getattr(dist.ReduceOp, operation))
    return numbers


def all_gather(value: Any) -> list[Any]:
    """The value of each rank, in the order of the ranks."""
    if world_size() == 1:
        return [value]
    values = [None] * world_size()
    with waiting():
        dist.all_gather_object(values, value)
    return values


def all_gather_rows(rows: Tensor) -> tuple[Tensor, int]:
    """The rows of all ranks, in the order of the ranks, and the place of this rank's first row among them."""
    if world_size() == 1:
        return rows, 0
    begins = [0, *itertools.accumulate(all_gather(len(rows)))]
    gathered = rows.new_empty(begins[-1], *rows.shape[1:])
    for source, (begin, end) in enumerate(itertools.pairwise(begins)):
        if source == rank():
            gathered[begin:end] = rows
        if end > begin:
            with waiting():
                dist.broadcast(gathered[begin:end], source)
    return gathered, begins[rank()]


def broadcast(value: Any) -> Any:
    """The value of rank 0."""
    return all_gather(value)[0]


def barrier() -> None:
    """Wait until every rank is here."""
    all_gather(None)


def any_rank(*facts: bool) -> list[bool]:
    """For each fact, whether it holds on any rank."""
    return (all_reduce(torch.tensor(facts, dtype=torch.int32)) > 0).tolist()


def require_same(what: str, value: Any) -> None:
    """Raise a UserError where a rank has another value than rank 0."""
    values = all_gather(value)
    if unlike := [str(number) for number, other in enumerate(values) if other != values[0]]:
        raise UserError(f"rank {', '.join(unlike)}: has another {what} than rank 0", "start all with the same files")
