"""A disk without room: one line that names the file, and what was saved before is still good."""

import contextlib
import errno
import json
import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from command_line import SMALL, command, contents
from tensorboard.summary.writer.record_writer import RecordWriter

from lmzoo.core import files
from lmzoo.runs import log


def no_room(*_) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill_disk(patch: pytest.MonkeyPatch, number: int) -> None:
    """Let the ``number``-th file that is saved from now on, and all after it, find no room."""
    whole, saved = os.fsync, 0

    def sync(descriptor: int) -> None:
        nonlocal saved
        saved += 1
        if saved >= number:
            no_room()
        whole(descriptor)

    patch.setattr(files.os, "fsync", sync)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_disk_that_is_full_from_the_start_leaves_nothing(number: int, folder: Path, monkeypatch: pytest.MonkeyPatch):
    fill_disk(monkeypatch, number)  # three files that a run begins with, the first checkpoint
    message = command(*SMALL, "run_dir=run").refused()
    assert re.match(r"error: run/[\w.]+: cannot be written \(No space left on device\); ", message)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("number", [2, 3, 4])
def test_the_last_good_checkpoint_survives_a_full_disk(
    number: int, run: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
):
    before = contents(run)
    with monkeypatch.context() as patch:
        fill_disk(patch, number)  # after provenance: the last check's best and last weights, the results
        message = command(*SMALL, f"run_dir={run}").refused()
    assert "cannot be written (No space left on device); earlier checkpoints are intact: free disk space" in message
    left = contents(run)
    assert not [name for name in left if name.endswith(".part")]
    if number <= 3:
        assert left["last.pt"] == before["last.pt"]
    assert command(*SMALL, f"run_dir={run}").code == 0
    for name in ("last.pt", "best.pt"):
        ended, whole = (torch.load(path / name, weights_only=True) for path in (run, finished))
        assert all(map(torch.equal, ended["model"].values(), whole["model"].values()))


def test_a_log_that_finds_no_room(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(log._LogFile, "flush", no_room)
    assert "cannot be written (No space left on device)" in command(*SMALL, "run_dir=run").refused()


def test_tensorboard_finds_no_room(folder: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(RecordWriter, "write", no_room)
        assert "cannot be written (No space left on device)" in command(*SMALL, "run_dir=run").refused()
    assert command(*SMALL, "run_dir=run").code == 0


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """The system refuses files of more than 4096 bytes; Python ignores the signal that comes with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_files_that_grow_too_large_leave_the_last_good_checkpoint(run: Path):
    (run / "best.pt").unlink()
    before = contents(run)
    with small_files():
        message = command(*SMALL, f"run_dir={run}").refused()
    assert re.fullmatch(r"error: .*/(last|best)\.pt: cannot be written \(File too large\); .*", message)
    assert contents(run)["last.pt"] == before["last.pt"]
    assert command(*SMALL, f"run_dir={run}").code == 0
    assert json.loads((run / "results.json").read_text())["model"] == "lstm"
