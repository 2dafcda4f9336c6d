"""Progress of long computations: a bar on a terminal, elsewhere occasional lines in the log."""

import logging
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from lmzoo.core.files import read_pieces
from lmzoo.core.ranks import is_main

log = logging.getLogger(__name__)

SECONDS = 30
"""The minimum interval between lines in the log, in seconds."""

MB = 10**6

Step = TypeVar("Step")


class Bar:
    """A progress bar for ``total`` steps of ``what``, counted by ``unit``, of which ``done`` are finished; a context.

    No bar is shown for less than ``delay`` seconds.
    """

    def __init__(self, total: int, unit: str, what: str | None = None, done: int = 0, delay: float = 0):
        self.total, self.unit, self.what, self.done = total, unit, what, done
        self.begun = self.logged = time.monotonic()  # the time of the last line
        self.begun_with = done
        off = None if is_main() else True
        self.bar = tqdm(total=total, initial=done, desc=what, unit=unit, disable=off, leave=False, delay=delay)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def update(self, *notes: str, steps: int = 1) -> None:
        """Advance by ``steps``; ``notes`` are added to the line in the log."""
        self.done += steps
        self.bar.update(steps)
        now = time.monotonic()
        new = self.done - self.begun_with
        if self.bar.disable and now - self.logged >= SECONDS and new:
            self.logged = now
            left = (now - self.begun) / new * max(0, self.total - self.done)  # pauses, such as validations, included
            step = f"{self.unit} {self.done:,} of {self.total:,}"
            work = [self.what] if self.what else []
            log.info("%s", ", ".join([*work, step, *notes, f"{tqdm.format_interval(left)} left"]))


def tracked(steps: Iterable[Step], total: int, unit: str, what: str, delay: float = 0) -> Iterator[Step]:
    """Iterate over ``total`` steps with a progress bar."""
    with Bar(total, unit, what, delay=delay) as bar:
        for step in steps:
            yield step
            bar.update()


def reading(file: Path, shown: bool = True, of_words: bool = True) -> Iterator[bytes]:
    """`read_pieces`, with a progress bar if ``shown`` and the file has at least a megabyte."""
    size = file.stat().st_size // MB if file.is_file() else 0
    if not (size and shown):
        yield from read_pieces(file, of_words=of_words)
        return
    with Bar(size, "MB", file.name) as bar:
        yield from read_pieces(file, lambda _, read: bar.update(steps=read // MB - bar.done), of_words)
