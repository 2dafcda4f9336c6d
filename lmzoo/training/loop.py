"""The loop of every run: steps and iterations, saved at times and after signals."""

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
from lmzoo.training.signals import stop_signals


class Loop(ABC):
    """What learns by steps, between which it is saved.

    Attributes:
        progress: how far it has come.
        checkpoint_seconds: ``last.pt`` is written when so much time has passed since the last one.
        resumed: whether it goes on from a checkpoint.
        started: when it would have begun if it had never been stopped.
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
        """What ``last.pt`` holds beside the progress. All ranks have to call it."""

    @abstractmethod
    def take_steps(self, bar: Bar) -> Iterator[bool]:
        """Take the steps that are left. Yields: after each, whether it has to be saved."""

    def save(self) -> None:
        """Write ``last.pt``. All ranks have to call it."""
        checkpoint = {"progress": asdict(self.progress), **self.state()}
        if ranks.is_main():
            self.run.save("last.pt", checkpoint)
        self.saved_at = time.monotonic()

    def go(self, steps: int) -> None:
        """The ``steps`` but for those that are done. Raises: Interrupted after a signal, when they are saved."""
        with stop_signals() as self.stopped, Bar(steps, "step", done=self.progress.step) as bar:
            for due in self.take_steps(bar):
                self.save_if(due)

    def save_if(self, due: bool, prepare: Callable[[], None] = lambda: None) -> None:
        """Save where that is ``due``, at times, and after a signal. Raises: Interrupted after a signal.

        Args:
            prepare: called before it is saved.
        """
        late = time.monotonic() - self.saved_at >= self.checkpoint_seconds
        save, stop = ranks.any_rank(due or late, self.stopped())
        if save or stop:
            prepare()
            self.save()
        if stop:
            raise Interrupted
