"""The processes of a run: this one alone, or those that torchrun has started, each of which has a rank.

All of them do the same in the same order, each with its share of the rows. Rank 0 alone writes and prints.
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
from collections.abc import Iterator
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
"""Of such things PyTorch speaks where another rank does not answer."""

_waits = itertools.count()
"""The number of the next wait, which is the same on every rank."""
_met: dict[str, Any] = {}
"""Where the ranks have met: what they can tell each other while they wait."""


@contextlib.contextmanager
def joined() -> Iterator[None]:
    """A context in which the processes that torchrun has started know each other. Alone, it does nothing.

    Raises: UserError where they do not meet, and where one of them no longer answers.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    if not dist.is_initialized():
        _meet()
    try:
        yield
    except RuntimeError as error:
        if not any(sign in str(error) for sign in GONE):
            raise
        raise UserError(f"rank {rank()}: another rank has ended, or did not answer within {_patience()}",
                        "see what it printed; the same command goes on from the last checkpoint") from None  # fmt: skip


def _patience() -> datetime.timedelta:
    given = os.environ.get("LMZOO_PATIENCE", str(PATIENCE))
    try:
        found = datetime.timedelta(seconds=float(given))
    except (ValueError, OverflowError):
        found = datetime.timedelta(0)
    if found < datetime.timedelta(seconds=1):
        raise UserError(f"LMZOO_PATIENCE={given}: not a number of seconds", "write 600 for ten minutes")
    return found


def _meet() -> None:
    place = ":".join(os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
    patience = _patience()
    waits = threading.Timer(NOTICE, _say, [f"waiting for the other ranks at {place}"])
    waits.daemon = True
    waits.start()
    try:
        gpus = torch.cuda.is_available() and dist.is_nccl_available()
        store, number, size = next(rendezvous("env://", timeout=patience))
        _met["store"] = store
        backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
        dist.init_process_group(backend, store=store, rank=number, world_size=size, timeout=patience)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"the ranks do not meet at {place} ({one_line(error)[:120]})",
                        "start them by torchrun; is the port in use?") from None  # fmt: skip
    finally:
        waits.cancel()
    atexit.register(dist.destroy_process_group)  # not before, since a sweep has further runs
    if rank():
        logging.getLogger("lmzoo").setLevel(logging.ERROR)


def rank() -> int:
    """The number of this process."""
    return dist.get_rank() if dist.is_initialized() else 0


def ranks() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def first() -> bool:
    """Whether this is the process that writes and prints."""
    return rank() == 0


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """A context in which ranks wait for each other; after `NOTICE` seconds one line names those that do not come."""
    if ranks() == 1:
        yield
        return
    waits = threading.Timer(NOTICE, _name_others, [next(_waits)])
    waits.daemon = True
    waits.start()
    try:
        yield
    finally:
        waits.cancel()


def _name_others(number: int) -> None:
    """Say which ranks do not wait, unless another rank that waits says it."""
    with contextlib.suppress(RuntimeError):  # the ranks have parted
        _met["store"].set(f"lmzoo/{number}/{rank()}", "waits")
        time.sleep(1)  # others have noticed by then, too
        here = [other for other in range(ranks()) if _met["store"].check([f"lmzoo/{number}/{other}"])]
        others = [str(other) for other in range(ranks()) if other not in here]
        if others and here[0] == rank():
            _say(f"waiting for rank {', '.join(others)}")


def _say(line: str) -> None:
    print(f"rank {os.environ.get('RANK', 0)}: {line}", file=sys.stderr, flush=True)


def summed(numbers: Tensor) -> Tensor:
    """The sum over the ranks, in place of the numbers of each."""
    if ranks() > 1:
        with waiting():
            dist.all_reduce(numbers)
    return numbers


def gathered(value: Any) -> list[Any]:
    """What each rank has, by their numbers."""
    if ranks() == 1:
        return [value]
    values = [None] * ranks()
    with waiting():
        dist.all_gather_object(values, value)
    return values


def stacked(rows: Tensor) -> tuple[Tensor, int]:
    """The rows of all ranks, those of rank 0 first, and which of them is the first of this rank's."""
    if ranks() == 1:
        return rows, 0
    begins = [0, *itertools.accumulate(gathered(len(rows)))]
    whole = rows.new_empty(begins[-1], *rows.shape[1:])
    for number, (begin, end) in enumerate(itertools.pairwise(begins)):
        if number == rank():
            whole[begin:end] = rows
        if end > begin:
            with waiting():
                dist.broadcast(whole[begin:end], number)
    return whole, begins[rank()]


def largest(numbers: Tensor) -> Tensor:
    """The largest of the ranks', in place of the numbers of each."""
    if ranks() > 1:
        with waiting():
            dist.all_reduce(numbers, dist.ReduceOp.MAX)
    return numbers


def agreed(value: Any) -> Any:
    """What rank 0 has."""
    return gathered(value)[0]


def anywhere(*facts: bool) -> list[bool]:
    """For each fact, whether it holds in any of the processes."""
    return (summed(torch.tensor(facts, dtype=torch.int32)) > 0).tolist()


def require_same(what: str, value: Any) -> None:
    """Raise a UserError where a rank has another value than rank 0."""
    values = gathered(value)
    if others := [str(number) for number, other in enumerate(values) if other != values[0]]:
        raise UserError(f"rank {', '.join(others)}: has another {what} than rank 0", "start all with the same files")
