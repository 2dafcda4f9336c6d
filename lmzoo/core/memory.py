"""The memory of the CPU."""

import ctypes
import platform


def keep_freed_memory() -> None:
    """Let glibc keep the memory of freed tensors for the next ones. Other allocators are left as they are.

    glibc maps memory for every large tensor and gives it back at once, and the system then clears each page of the next
    one. A step of training needs the same sizes again and again.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    mmap_max, trim_threshold = -4, -1  # M_MMAP_MAX and M_TRIM_THRESHOLD of malloc.h
    libc = ctypes.CDLL(None)
    libc.mallopt(mmap_max, 0)
    libc.mallopt(trim_threshold, -1)  # never
