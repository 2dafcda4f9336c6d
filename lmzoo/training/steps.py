"""Learning by steps, where a step knows nothing of runs: word vectors, labels."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lmzoo.core.errors import Interrupted, UserError
from lmzoo.core.progress import Bar
from lmzoo.runs.board import Board
from lmzoo.training.signals import stop_signals


class Stepwise(Protocol):
    """What learns by steps."""

    @property
    def steps(self) -> int:
        """How many there are; fewer where a step finds that it was the last one."""
        ...

    def step(self, number: int) -> dict[str, float]:
        """Take a step, the first being 0. Returns: figures by their tags in TensorBoard."""
        ...

    def tokens(self, number: int) -> int:
        """How many tokens have been read after so many steps."""
        ...


@dataclass
class Position:
    """How far a run has come, beside what is learnt."""

    step: int = 0
    seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)


def take_steps(
    learner: Stepwise, position: Position, board: Board, save: Callable[[], None], seconds: float, advice: str
) -> None:
    """The steps that are left. They are saved when so many seconds have passed, at a signal, and at the end.

    Raises: Interrupted after SIGINT or SIGTERM. UserError with the advice for a figure that is not finite.
    """
    saved = time.monotonic()
    with stop_signals() as stopped, Bar(learner.steps, "step", done=position.step) as bar:
        while position.step < learner.steps:
            started = time.monotonic()
            position.metrics = learner.step(position.step)
            if wrong := [name for name, value in position.metrics.items() if value - value != 0]:
                raise UserError(f"{wrong[0]} is not finite at step {position.step + 1}", advice)
            position.step += 1
            took = time.monotonic() - started
            position.seconds += took
            read = learner.tokens(position.step) - learner.tokens(position.step - 1)
            speed = {"train/tokens_per_second": read / max(took, 1e-9)}
            board.scalars(position.metrics | speed, learner.tokens(position.step))
            bar.update(*(f"{name} {value:.4g}" for name, value in position.metrics.items()))
            if stopped() and position.step < learner.steps:
                save()
                raise Interrupted
            if time.monotonic() - saved >= seconds:
                save()
                saved = time.monotonic()
    save()
