"""Training of word vectors and labellers, whose steps do not depend on the run."""

import math
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.core.progress import Bar
from lmzoo.core.registry import Registry
from lmzoo.reports.board import Board
from lmzoo.runs.command_options import SteppedOptions
from lmzoo.runs.device import resolve_device
from lmzoo.runs.directory import Run
from lmzoo.training.loop import Loop
from lmzoo.training.optimization import NotFinite
from lmzoo.training.progress import Progress
from lmzoo.training.session import Learner


class SteppedLearner(Learner, Loop):
    """A learner of a model by steps, with checkpoints between them.

    Args:
        registry: the registry of the model.
        chosen: the model's options.

    Attributes:
        advice: advice for non-finite figures.
        text_tokens: tokens per epoch, available after `start`.
        learner: has the state that later steps depend on.
    """

    advice: str = "choose other options and another run_dir"
    model: Any
    text_tokens: int

    def __init__(self, options: SteppedOptions, run: Run, registry: Registry, chosen: Mapping[str, Any]):
        Loop.__init__(self, run, options.checkpoint_seconds)
        self.options = options
        self.kind, self.name = registry.kind, chosen["name"]
        self.model, self.sources = registry.build(chosen), registry.sources(chosen)
        self.learner: Any = self.model

    def take_step(self, number: int) -> dict[str, float]:
        """Take step ``number`` of the model, counted from 0. Returns: metrics by TensorBoard tag."""
        return self.model.step(number)

    @abstractmethod
    def start(self) -> None:
        """Read the text and prepare the first step."""

    def state(self) -> dict[str, Any]:
        return {"state": dict(self.learner.state())}

    def begin(self) -> None:
        """Initialize a run that is not resumed."""

    def prepare(self, board: Board) -> None:
        self.board, name = board, self.options.device
        if not self.model.any_device and name not in ("auto", "cpu"):
            raise UserError(f"device={name}: {self.kind}={self.name} computes on a CPU", "leave it out")
        self.device = self.model.device = resolve_device(name if self.model.any_device else "cpu")
        if self.device.type == "mps":
            raise UserError(f"device={name}: only language models compute there", "choose cpu or cuda")

    def describe(self) -> Iterator[str]:
        yield f"{self.name} on {self.corpus.name}, {self.device}: {self.run.path}"

    def restore(self) -> None:
        self.started = time.monotonic()
        self.start()
        saved = self.run.restore("last.pt", "progress", "state")
        self.resumed = saved is not None
        if saved is None:
            self.begin()
            self.progress.seconds = time.monotonic() - self.started
            return
        with self.run.reading("last.pt"):
            self.learner.restore(saved["state"])
            self.progress = Progress(**saved["progress"])
        self.started = time.monotonic() - self.progress.seconds

    def fit(self) -> None:
        """Take the remaining steps; raise a UserError if a figure is not finite."""
        self.go(self.model.steps)

    def take_steps(self, bar: Bar) -> Iterator[bool]:
        progress = self.progress
        while progress.step < self.model.steps:
            begun = time.monotonic()
            try:
                progress.metrics = self.take_step(progress.step)
                if wrong := [name for name, value in progress.metrics.items() if not math.isfinite(value)]:
                    raise NotFinite(f"{wrong[0]} is not finite")
            except NotFinite as error:
                raise UserError(f"{error} at step {progress.step + 1}", self.advice) from None
            progress.step += 1
            now = time.monotonic()
            progress.seconds = now - self.started
            before, progress.tokens = progress.tokens, self.text_tokens * progress.step // self.model.epoch
            speed = (progress.tokens - before) / max(now - begun, 1e-9)
            self.board.scalars(progress.metrics | {"train/tokens_per_second": speed}, progress.tokens)
            bar.update(*(f"{name} {value:.4g}" for name, value in progress.metrics.items()))
            yield progress.step == self.model.steps
        if not self.model.steps:
            self.save()
