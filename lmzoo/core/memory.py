"""Memory of the CPU."""

import contextlib
import ctypes
import functools
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from lmzoo.core.errors import UserError

_MMAP_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -4, -3, -1
"""M_MMAP_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's malloc.h."""
LARGE = 2**22
"""A size in bytes; reusing smaller blocks is cheap, while the system clears the pages of larger ones each time."""


def require_memory(needed: float, what: str, advice: str) -> None:
    """Raise a UserError if the machine has less memory than ``needed`` bytes; Linux would kill the process."""
    if needed > (all_of_it := total_memory()):
        raise UserError(f"{what} need {needed / 2**30:,.1f} GiB, and the machine has {all_of_it / 2**30:,.1f}", advice)


def total_memory() -> int:
    """The machine's memory in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def keep_freed_memory() -> None:
    """Let glibc reuse the memory of freed tensors. Other allocators are not changed.

    By default glibc maps memory for every large tensor and unmaps it when freed, so that the system clears each page of
    the next one. A training step needs the same sizes repeatedly.
    """
    _set(_MMAP_MAX, 0)
    _set(_TRIM_THRESHOLD, -1)  # never


@contextlib.contextmanager
def release_large_tensors() -> Iterator[None]:
    """A context in which tensors of at least `LARGE` bytes are returned to the system when freed; afterwards none are.

    For computations whose tensors nearly fill the memory and vary in size, which would fragment the heap.
    """
    _set(_TRIM_THRESHOLD, 32 * LARGE)  # free memory beyond this at the end of the heap is returned
    _set(_MMAP_THRESHOLD, LARGE)
    _set(_MMAP_MAX, 65_536)  # glibc's default
    try:
        yield
    finally:
        keep_freed_memory()


def trim_heap() -> None:
    """Return freed memory to the system if the process occupies more than half of the machine's.

    Tensors whose sizes vary from step to step fragment the heap, which grows to about twice what they need.
    """
    if (libc := _glibc()) and _resident_memory() > total_memory() / 2:
        libc.malloc_trim(0)


def _resident_memory() -> int:
    """The memory that the process occupies, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@functools.cache
def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def _set(parameter: int, value: int) -> None:
    if libc := _glibc():
        libc.mallopt(parameter, value)
