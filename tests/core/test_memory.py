"""The memory of freed tensors is kept for the next ones."""

import ctypes
import platform
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from command_line import command

from lmzoo.cli import ending
from lmzoo.core.memory import keep_freed_memory, release_large_tensors

resource = pytest.importorskip("resource")


def page_faults() -> int:
    """How many pages the system clears for a tensor of 160 MB, which is freed then."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(40_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_pages_are_cleared_once_but_where_large_tensors_are_given_back():
    """In a process of its own, whose memory no other test has cut up."""
    script = f"import sys; sys.path[:0] = {sys.path!r}; from test_memory import *; keep_freed_memory()"
    script += "; least = lambda: min(page_faults() for _ in range(5))"
    script += "\nwith release_large_tensors(): print(least())\nprint(least())"

    def faults() -> list[int]:
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
        return [*map(int, done.stdout.split())]

    # where the system happens to put the heap below something else, it cannot grow, and nothing is kept
    assert any(kept < 1000 < given_back for given_back, kept in (faults() for _ in range(3)))  # 39,000 where cleared


def test_other_allocators_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("there is no glibc"))
    keep_freed_memory()
    with release_large_tensors():
        pass


def test_every_command_keeps_it(monkeypatch: pytest.MonkeyPatch):
    called = []
    monkeypatch.setattr(ending, "keep_freed_memory", lambda: called.append(True))
    assert command(main=lambda: 0).code == 0
    assert called == [True]
