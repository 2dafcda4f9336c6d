"""Command lines drawn at random: done or refused in one line, in little time, and nothing left after a refusal."""

import contextlib
import itertools
import re
import shutil
import signal
import traceback
import urllib.error
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from bad_commands import MAINS, CommandLine, command_lines, furnish
from command_line import Outcome, command

from lmzoo.commands import demo
from lmzoo.corpus import pydoc

SECONDS = 10
"""Of processor time that a command may take."""
WARNING = re.compile(r"runs/\S+: its training is not finished; these are the best weights so far")
WEIGHTS_FILES = re.compile(
    r"error: (.* at step \d+; the last good |the model's log-probabilities are not numbers|the model gives a word ).*"
)
"""Ends a run that has learnt something, and leaves its folder."""


class TooLong(BaseException):
    """The time of a command is up."""


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """Raise `TooLong` in a context that takes more than `SECONDS`."""

    def stop(*_):
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("furnished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        furnish(folder)
    return folder


@pytest.fixture
def run(furnished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[CommandLine], tuple[int, str]]:
    """Run a command line in a fresh copy of `furnished`: its exit code, and what is wrong with the way it ended."""

    def offline(*_, **__):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr("urllib.request.urlopen", offline)
    monkeypatch.setattr(demo, "serve", lambda *_: SimpleNamespace(address="here", close=lambda: None))
    monkeypatch.setattr(demo, "wait", lambda: None)
    monkeypatch.setattr(pydoc, "topics", dict(itertools.islice(pydoc.topics.items(), 4)))  # a text of no time
    monkeypatch.setenv("LMZOO_DATA", "data")
    monkeypatch.setenv("LMZOO_CACHE", str(tmp_path / "cache"))
    before: dict[str, int] = {}

    def work(line: CommandLine) -> tuple[int, str]:
        nonlocal before
        if not before or state(tmp_path / "here") != before:
            shutil.rmtree(tmp_path / "here", ignore_errors=True)
            shutil.copytree(furnished, tmp_path / "here")
            before = state(tmp_path / "here")
        try:
            with monkeypatch.context() as patch, in_time():
                patch.chdir(tmp_path / "here")
                outcome = command(*line.arguments, main=MAINS[line.name])
        except BaseException:
            return 1, traceback.format_exc()
        return outcome.code, complaint(outcome, state(tmp_path / "here") != before)

    return work


def state(folder: Path) -> dict[str, int]:
    """Everything below a folder, and when a file was written."""
    return {str(path): path.stat().st_mtime_ns if path.is_file() else 0 for path in folder.rglob("*")}


def complaint(outcome: Outcome, changed: bool) -> str:
    """What a command must not do, or nothing."""
    lines = [line for line in outcome.err.splitlines() if not WARNING.fullmatch(line)]
    if outcome.code not in (0, 1, 2):
        return f"ends with exit code {outcome.code}: {outcome}"
    told = [line for line in lines if line.startswith(("error: ", "failed: "))]
    if outcome.code == 0:
        return f"tells of an error: {outcome.err!r}" if told else ""
    if outcome.code == 1:
        return "" if told else f"does not tell how its jobs failed: {outcome}"
    if lines != told or len(lines) != 1 or len(lines[0]) > 300:
        return f"is not refused in one short line: {outcome.err!r}"
    return "leaves files behind" if changed and not WEIGHTS_FILES.fullmatch(lines[0]) else ""


def check(run: Callable[[CommandLine], tuple[int, str]], lines: list[CommandLine]) -> None:
    complaints, codes = [], Counter()
    for line in lines:
        code, wrong = run(line)
        codes[code] += 1
        if wrong:
            complaints.append(f"{line.name} {list(line.arguments)}\n{wrong}")
    assert not complaints, "\n\n".join([*complaints, f"{len(complaints)} of {len(lines)}"])
    assert 0.5 < codes[2] / len(lines) < 0.97, codes


def test_thirty_random_command_lines(run):
    check(run, list(itertools.islice(command_lines(0, training=0.2), 30)))  # what learns takes longest


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_1400_random_command_lines(run, seed: int):
    lines = list(itertools.islice(command_lines(seed), 1400))
    assert {line.name for line in lines} == set(MAINS)
    check(run, lines)
