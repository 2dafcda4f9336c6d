"""The training loop of every run: steps and iterations, checkpoints and signals."""

import contextlib
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from lmzoo.core import ranks
from lmzoo.core.errors import Interrupted
from lmzoo.core.progress import Bar
from lmzoo.runs.directory import Run
from lmzoo.training.progress import Progress


@contextlib.contextmanager
def stop_signals(waits: Callable[[], bool] = lambda: True) -> Iterator[Callable[[], bool]]:
    """A context in which SIGINT and SIGTERM only set a flag while ``waits()``. Yields a function that reads the flag.

    A second signal acts as outside the context. Outside the main thread, which handles signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    received = False
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def record(number: int, _: Any) -> None:
        nonlocal received
        signal.signal(number, before[number])
        if waits():
            received = True
        else:
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, record)
    try:
        yield lambda: received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Loop(ABC):
    """A model trained by steps, with checkpoints between them.

    Attributes:
        progress: the progress of training.
        checkpoint_seconds: the interval at which ``last.pt`` is written.
        resumed: whether training continues from a checkpoint.
        started: the time at which an uninterrupted run would have started.
    """

    run: Run
    progress: Progress
    checkpoint_seconds: float

    def __init__(self, run: Run, checkpoint_seconds: float):
        self.run, self.checkpoint_seconds = run, checkpoint_seconds
        self.progress, self.resumed = Progress(), False
        self.stopped: Callable[[], bool] = lambda: False
        self.started = self.saved_at = time.monotonic()

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The contents of ``last.pt`` besides the progress; all ranks have to call it."""

    @abstractmethod
    def take_steps(self, bar: Bar) -> Iterator[bool]:
        """Take the remaining steps. Yields: after each, whether a checkpoint is due."""

    def save(self) -> None:
        """Write ``last.pt``. All ranks have to call it."""
        checkpoint = {"progress": asdict(self.progress), **self.state()}
        if ranks.is_main():
            self.run.save("last.pt", checkpoint)
        self.saved_at = time.monotonic()

    def go(self, steps: int) -> None:
        """Take the remaining of ``steps``. Raises: Interrupted after a signal, once a checkpoint is saved."""
        with stop_signals() as self.stopped, Bar(steps, "step", done=self.progress.step) as bar:
            for due in self.take_steps(bar):
                self.save_if(due)

    def save_if(self, due: bool, prepare: Callable[[], None] = lambda: None) -> None:
        """Save if ``due``, if the interval has passed, or after a signal. Raises: Interrupted after a signal.

        Args:
            prepare: called before saving.
        """
        late = time.monotonic() - self.saved_at >= self.checkpoint_seconds
        save, stop = ranks.any_rank(due or late, self.stopped())
        if save or stop:
            prepare()
            self.save()
        if stop:
            raise Interrupted
