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
from lmzoo.core import memory
from lmzoo.core.memory import keep_freed_memory, release_large_tensors, trim_heap

resource = pytest.importorskip("resource")


def page_faults() -> int:
    """How many pages the system clears for a tensor of 160 MB, which is freed then."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(40_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def alone(script: str) -> list[float]:
    """The numbers that a script prints in a process of its own, whose memory no other test has cut up."""
    script = f"import sys; sys.path[:0] = {sys.path!r}; from test_memory import *; {script}"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
    )
    return [*map(float, done.stdout.split())]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_pages_are_cleared_once_but_where_large_tensors_are_given_back():
    script = "keep_freed_memory(); least = lambda: min(page_faults() for _ in range(5))"
    script += "\nwith release_large_tensors(): print(least())\nprint(least())"
    # where the system happens to put the heap below something else, it cannot grow, and nothing is kept
    assert any(kept < 1000 < cleared for cleared, kept in (alone(script) for _ in range(3)))  # 39,000 where cleared


def given_back(machine: float) -> float:
    """The share of 400 MB of freed tensors that `trim_heap` returns, if the machine had so many times what is used."""
    keep_freed_memory()
    tensors = [torch.ones(1_000_000) for _ in range(100)]
    last = tensors.pop()  # which the heap cannot shrink below
    tensors.clear()
    before = memory._resident_memory()
    memory.total_memory = lambda: machine * before
    trim_heap()
    return (before - memory._resident_memory()) / 4e8 * float(last[0])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator")
def test_a_fragmented_heap_is_trimmed_once_it_fills_half_of_the_memory():
    assert alone("print(given_back(2.5), given_back(1.5))") == [pytest.approx(0, abs=0.05), pytest.approx(1, abs=0.05)]


def test_other_allocators_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("there is no glibc"))
    memory._glibc.cache_clear()
    keep_freed_memory()
    trim_heap()
    with release_large_tensors():
        pass
    memory._glibc.cache_clear()


def test_every_command_keeps_it(monkeypatch: pytest.MonkeyPatch):
    called = []
    monkeypatch.setattr(ending, "keep_freed_memory", lambda: called.append(True))
    assert command(main=lambda: 0).code == 0
    assert called == [True]
