"""The memory of the CPU."""

import contextlib
import ctypes
import os
import platform
from collections.abc import Iterator

from lmzoo.core.errors import UserError

_MMAP_MAX, _MMAP_THRESHOLD, _TRIM_THRESHOLD = -4, -3, -1
"""M_MMAP_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of glibc's malloc.h."""
LARGE = 2**22
"""Bytes. Smaller ones are cheap to keep; the system clears the pages of larger ones each time."""


def require_memory(needed: float, what: str, advice: str) -> None:
    """Raise a UserError where the machine has not so many bytes; ``what`` needs them. Linux would kill the process."""
    if needed > (all_of_it := total()):
        raise UserError(f"{what} need {needed / 2**30:,.1f} GiB, and the machine has {all_of_it / 2**30:,.1f}", advice)


def total() -> int:
    """The bytes of the machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def keep_freed_memory() -> None:
    """Let glibc keep the memory of freed tensors for the next ones. Other allocators are left as they are.

    glibc maps memory for every large tensor and gives it back at once, and the system then clears each page of the next
    one. A step of training needs the same sizes again and again.
    """
    _set(_MMAP_MAX, 0)
    _set(_TRIM_THRESHOLD, -1)  # never


@contextlib.contextmanager
def large_tensors_given_back() -> Iterator[None]:
    """While the context lasts, tensors of `LARGE` bytes leave the process when they are freed; after it, none do.

    That is for work whose tensors nearly fill the memory and have ever other sizes, of which the allocator would keep
    a hole each.
    """
    _set(_TRIM_THRESHOLD, 32 * LARGE)  # what is free at the heap's end beyond this is given back, too
    _set(_MMAP_THRESHOLD, LARGE)
    _set(_MMAP_MAX, 65_536)  # glibc's default
    try:
        yield
    finally:
        keep_freed_memory()


def _set(parameter: int, value: int) -> None:
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(parameter, value)
