"""The processes of a run: this one alone, or those that torchrun has started, each of which has a rank.

All of them do the same in the same order, each with its share of the rows. Rank 0 alone writes and prints.
"""

import atexit
import contextlib
import datetime
import itertools
import logging
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch import distributed as dist

from lmzoo.core.errors import UserError, one_line

PATIENCE = datetime.timedelta(minutes=30)
"""How long a rank waits for another one."""

GONE = ("gloo", "NCCL", "Connection", "Timed out", "Broken pipe", "timeout", "socket")
"""Of such things PyTorch speaks where another rank does not answer."""


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
        raise UserError(f"rank {rank()}: another rank has ended, or did not answer within {PATIENCE}",
                        "see what it printed; the same command goes on from the last checkpoint") from None  # fmt: skip


def _meet() -> None:
    place = ":".join(os.environ.get(name, "?") for name in ("MASTER_ADDR", "MASTER_PORT"))
    try:
        gpus = torch.cuda.is_available() and dist.is_nccl_available()
        dist.init_process_group("cpu:gloo,cuda:nccl" if gpus else "gloo", timeout=PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"the ranks do not meet at {place} ({one_line(error)[:120]})",
                        "start them by torchrun; is the port in use?") from None  # fmt: skip
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


def summed(numbers: Tensor) -> Tensor:
    """The sum over the ranks, in place of the numbers of each."""
    if ranks() > 1:
        dist.all_reduce(numbers)
    return numbers


def gathered(value: Any) -> list[Any]:
    """What each rank has, by their numbers."""
    if ranks() == 1:
        return [value]
    values = [None] * ranks()
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
            dist.broadcast(whole[begin:end], number)
    return whole, begins[rank()]


def largest(numbers: Tensor) -> Tensor:
    """The largest of the ranks', in place of the numbers of each."""
    if ranks() > 1:
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
