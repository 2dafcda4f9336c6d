"""Mistakes that tests must notice: ``python scripts/checks/mutants.py [--jobs N] [PART …]``, run by hand.

``mutants.toml`` beside this file lists them by the file of ``lmzoo`` that they change: what goes wrong, the text that
stands there once, the text in its place, and the tests that notice, where they are not those at the file's own path. It
has one to three of the most telling mistakes of each concept, and their texts are as short as they can be, so that few
edits touch them. A new concept brings its own, in place of others: the list stays at about 150. A PART is a part of a
file's name or of what goes wrong.

The list is our own, since generated mutants (mutmut, cosmic-ray) know no semantics and import torch for each of them.
Here one process has imported it, and a fork of it tests each mutant in a copy of the checkout.
"""

import argparse
import contextlib
import importlib
import io
import multiprocessing
import os
import py_compile
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

LIST = Path(__file__).with_suffix(".toml")
ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120
"""Seconds of processor time until the tests of a mutant are ended. Such a mutant is told apart from those that fail."""
WARM = ("torch", "hydra", "hypothesis", "scipy", "xdist", "torch.utils.tensorboard",
        "tensorboard.backend.event_processing.event_accumulator")  # fmt: skip

QUIETLY = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]


class Mutant(NamedTuple):
    """A mistake of one line."""

    file: str
    what: str
    old: str
    new: str
    tests: Sequence[str]

    def applied(self) -> str:
        """The file's text with the mistake.

        Raises: ValueError where it cannot be made just once, or leaves no Python.
        """
        text = (ROOT / self.file).read_text(encoding="utf-8")
        if (found := text.count(self.old)) != 1:
            raise ValueError(f"{self.file}: {self.what}: {self.old!r} is there {found} times")
        mutated = text.replace(self.old, self.new)
        compile(mutated, self.file, "exec")
        return mutated


def read() -> list[Mutant]:
    """All mutants."""
    mutants = []
    for name, listed in tomllib.loads(LIST.read_text(encoding="utf-8")).items():
        file = Path(name)
        for what, old, new, *tests in listed:
            noticing = tests or [file.with_name(f"test_{file.name}")]
            mutants.append(Mutant(f"lmzoo/{name}", what, old, new, [f"tests/{test}" for test in noticing]))
    return mutants


def copied(folder: Path) -> None:
    """Copy the checkout and compile it; what is compiled is known by its contents, not by its time."""
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in files.split("\0")[:-1]:
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    for path in folder.rglob("lmzoo/**/*.py"):
        py_compile.compile(str(path), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


def outcome(folder: Path, tests: Sequence[str], limit: int) -> str:
    """What comes of tests in a copy, in a fork of this process: ``passed``, ``failed`` or ``timed out``.

    What they print goes to ``FOLDER.log``.
    """
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        signal.alarm(5 * limit)  # a process that waits takes no processor time
        os.chdir(folder)
        with Path(f"{folder}.log").open("wb") as log:
            for stream in (1, 2):
                os.dup2(log.fileno(), stream)
        os.environ |= {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        os.environ.pop("LMZOO_DATA", None)  # without Penn Treebank, which takes long
        sys.path.insert(0, str(folder))
        code = 1
        try:
            code = int(pytest.main(QUIETLY + list(tests)))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what the tests have started
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in {signal.SIGXCPU, signal.SIGKILL, signal.SIGALRM}:
        return "timed out"
    return "failed" if status else "passed"


def tried(mutant: Mutant) -> tuple[Mutant, str, float]:
    """What comes of the tests of a mutant, and the seconds that this took."""
    started, file = time.monotonic(), COPY / mutant.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(mutant.applied(), encoding="utf-8")
    try:
        return mutant, outcome(COPY, mutant.tests, LIMIT), time.monotonic() - started
    finally:
        file.write_text(whole, encoding="utf-8")


def begin(folder: str) -> None:
    """Give this process a copy of its own."""
    global COPY
    COPY = Path(tempfile.mkdtemp(dir=folder))
    copied(COPY)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    chosen = [m for m in read() if not options.parts or any(part in f"{m.file} {m.what}" for part in options.parts)]
    for mutant in chosen:
        mutant.applied()
    for module in WARM:
        with contextlib.suppress(ImportError), contextlib.redirect_stderr(io.StringIO()):
            importlib.import_module(module)
    assert "lmzoo" not in sys.modules
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as folder:
        begin(folder)
        tests = sorted({test for mutant in chosen for test in mutant.tests})
        if (found := outcome(COPY, tests, 10 * LIMIT)) != "passed":
            print(Path(f"{COPY}.log").read_text(), f"these tests {found} without any mutant", sep="\n", file=sys.stderr)
            return 2
        outcomes: dict[str, list[Mutant]] = {"failed": [], "timed out": [], "passed": []}
        with multiprocessing.get_context("fork").Pool(options.jobs, begin, [folder]) as pool:
            for mutant, found, seconds in pool.imap_unordered(tried, chosen):
                print(f"tests {found:9} {seconds:5.1f} s  {mutant.file}: {mutant.what}", flush=True)
                outcomes[found].append(mutant)
    unnoticed = outcomes["passed"]
    noticed = len(chosen) - len(unnoticed)
    share, by_time = noticed / max(1, len(chosen)), len(outcomes["timed out"])
    print(f"\n{noticed} of {len(chosen)} noticed ({share:.1%}), {by_time} of them by time")
    for mutant in unnoticed:
        print(f"{mutant.file}: {mutant.what}\n  - {mutant.old}\n  + {mutant.new}")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
