"""The loop that sets a model's numbers, whatever the model."""

import contextlib
import logging
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau
from tqdm import tqdm

from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import SentenceWindows, StreamWindows, Window
from lmzoo.errors import UserError
from lmzoo.models.base import LanguageModel, State
from lmzoo.optimization import optimizers, schedules
from lmzoo.perplexity import score
from lmzoo.registry import NonNegative, Size
from lmzoo.run import Run

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """What ``configs/trainer`` sets; see the comments there."""

    batch_size: Size
    bptt: Size
    max_tokens: Size
    epochs: Size
    checks_per_epoch: Size
    patience: Size | None
    clip: NonNegative | None
    precision: Literal["float32", "bfloat16"]
    checkpoint_seconds: NonNegative


@dataclass
class Progress:
    """Where training stands; with the weights, all that a resumed run has to know."""

    epoch: int = 0
    window: int = 0
    step: int = 0
    tokens: int = 0
    best: float = math.inf
    stale: int = 0
    seconds: float = 0.0
    """Wall-clock, checks included."""
    step_seconds: float = 0.0
    """Of it, in estimation and steps."""
    finished: bool = False


class Interrupted(Exception):  # noqa: N818 - not an error
    """SIGINT or SIGTERM came while the gradient was followed; everything is saved."""


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """While the context lasts SIGINT and SIGTERM only set a flag, which the yielded function reads.

    A second signal acts as if there were no context.
    """
    received = False
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _: Any) -> None:
        nonlocal received
        received = True
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Trainer:
    """Fits one model to one corpus in one run directory, from where its ``last.pt`` stands if there is one.

    ``observe(progress, metrics)`` is called with scalars to log: after every step with
    ``train/…`` tags, after every check with ``perplexity/valid``.
    """

    def __init__(
        self,
        model: LanguageModel,
        corpus: Corpus,
        run: Run,
        options: TrainerOptions,
        *,
        optimizer: Mapping[str, Any],
        schedule: Mapping[str, Any],
        seed: int,
        observe: Callable[[Progress, dict[str, float]], None],
    ):
        if options.precision == "bfloat16" and not model.autocast:
            raise UserError(
                f"trainer.precision=bfloat16: {type(model).__name__} computes in float32 alone; "
                "set trainer.precision=float32"
            )
        self.model, self.corpus, self.run, self.options, self.observe = model, corpus, run, options, observe
        self.device = model.device
        self.clip = math.inf if options.clip is None else options.clip
        self.progress = Progress()
        self.state: State = ()
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if self.parameters:
            self.windows = self._windows(seed)
            self.descent = optimizer, schedule
            self._begin_descent()
        self.resumed = self._restore()
        self.saved_at = time.monotonic()

    def _windows(self, seed: int) -> StreamWindows | SentenceWindows:
        options, tokens = self.options, self.corpus.train
        if self.corpus.context == "sentence":
            return SentenceWindows(tokens, options.max_tokens, seed)
        if options.batch_size > len(tokens):
            raise UserError(
                f"trainer.batch_size={options.batch_size}: train has only {len(tokens)} tokens, and each row needs one"
            )
        return StreamWindows(tokens, options.batch_size, options.bptt)

    def _begin_descent(self) -> None:
        """At the start, so that a bad option is told at once, and after estimation, which may resize parameters."""
        optimizer, schedule = self.descent
        self.optimizer = optimizers.build(optimizer, parameters=self.parameters)
        steps = len(self.windows)
        self.schedule = schedules.build(
            schedule, optimizer=self.optimizer, steps_per_epoch=steps, steps=steps * self.options.epochs
        )

    def fit(self) -> None:
        """Estimate, then descend the gradient until the epochs are over or validation stalls.

        Raises: Interrupted after SIGINT or SIGTERM in the descent, and UserError where the loss or its gradient is
            not finite; in both cases ``last.pt`` is what training goes on from.
        """
        if self.resumed:
            log.info("resumed at step %d, %.1f s of training behind it", self.progress.step, self.progress.seconds)
        else:
            self._estimate()  # with nothing to save before it is done, a signal ends it at once
        if self.progress.finished:
            return
        self.model.train()
        total = len(self.windows) * self.options.epochs
        bar = tqdm(total=total, initial=self.progress.step, unit="step", disable=None, leave=False)
        with stop_signals() as stopped, bar:
            while not self.progress.finished:
                self._epoch(stopped, bar)

    def _estimate(self) -> None:
        started = time.monotonic()
        self.model.estimate(self.corpus)
        self.progress.step_seconds = self.progress.seconds = time.monotonic() - started
        if self.parameters:
            self._begin_descent()
        else:
            self.progress.tokens = len(self.corpus.train)
            self.progress.finished = True
            self._check()
        self.save()

    def _epoch(self, stopped: Callable[[], bool], bar: tqdm) -> None:
        """The rest of the current epoch."""
        progress, windows = self.progress, self.windows
        checks = {len(windows) * (i + 1) // self.options.checks_per_epoch for i in range(self.options.checks_per_epoch)}
        clock = time.monotonic()
        for window in windows.epoch(progress.epoch, skip=progress.window):
            started = time.monotonic()
            metrics = self._step(window)
            progress.window += 1
            progress.step += 1
            progress.tokens += window.count
            elapsed = time.monotonic() - started
            progress.step_seconds += elapsed
            metrics["train/tokens_per_second"] = window.count / elapsed
            self.observe(progress, metrics)
            bar.update()
            valid = self._check() if progress.window in checks else None
            progress.seconds, clock = progress.seconds + time.monotonic() - clock, time.monotonic()
            if valid is not None:
                bar.set_postfix(valid=f"{valid:.2f}")
                if progress.window == len(windows):
                    progress.epoch, progress.window = progress.epoch + 1, 0
                stalled = self.options.patience is not None and progress.stale >= self.options.patience
                progress.finished = stalled or progress.epoch == self.options.epochs
                self.save()
            elif time.monotonic() - self.saved_at >= self.options.checkpoint_seconds:
                self.save()
            if progress.finished:
                return
            if stopped():
                self.save()
                raise Interrupted

    def _step(self, window: Window) -> dict[str, float]:
        """One window: score it, follow the gradient, and carry the state on."""
        tokens = window.tokens.to(self.device)
        if window.starts:
            self.state = self.model.initial_state(len(tokens))
        half = self.options.precision == "bfloat16"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=half):
            logprobs, state = self.model(tokens, self.state)
        if window.mask is not None:
            logprobs = logprobs[window.mask.to(self.device)]
        loss = -logprobs.mean()
        self._require_finite(loss, "the loss", self.progress.step + 1)
        self.optimizer.zero_grad(set_to_none=True)
        (loss + self.model.penalty()).backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self._require_finite(norm, "the gradient", self.progress.step + 1)
        rate = self.optimizer.param_groups[0]["lr"]
        self.optimizer.step()
        if not isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step()
        # laid out as it is when it comes back from a checkpoint, since layouts decide in which order sums are rounded,
        # and no view, which would be saved with all that it is a view of
        self.state = tuple(part.detach().clone(memory_format=torch.contiguous_format) for part in state)
        return {
            "perplexity/train": math.exp(min(float(loss.detach()), 700)),
            "train/learning_rate": rate,
            "train/gradient_norm": float(norm),
        }

    def _require_finite(self, value: Tensor, what: str, step: int) -> None:
        if not bool(torch.isfinite(value)):
            raise UserError(
                f"{what} is {float(value.detach())} at step {step}; the last good checkpoint is "
                f"{self.run.path / 'last.pt'}; lower optimizer.lr or trainer.clip and choose another run_dir"
            )

    def _check(self) -> float:
        """Validation perplexity; the best weights are kept."""
        progress = self.progress
        valid = score(self.model, self.corpus.splits["valid"], self.corpus.context).perplexity
        if self.parameters:
            self._require_finite(torch.tensor(valid), "validation perplexity", progress.step)
        if valid < progress.best or not self.parameters:
            progress.best, progress.stale = valid, 0
            self.run.save("best.pt", {"model": self.model.state_dict()})
        else:
            progress.stale += 1
        if self.parameters and isinstance(self.schedule, ReduceLROnPlateau):
            self.schedule.step(valid)
        self.observe(progress, {"perplexity/valid": valid})
        return valid

    def save(self) -> None:
        """Write ``last.pt``."""
        checkpoint = {
            "model": self.model.state_dict(),
            "progress": asdict(self.progress),
            "state": self.state,
            "random": {"cpu": torch.get_rng_state()},
        }
        if self.device.type == "cuda":
            checkpoint["random"]["cuda"] = torch.cuda.get_rng_state(self.device)
        if self.parameters:
            checkpoint["optimizer"] = self.optimizer.state_dict()
            checkpoint["schedule"] = self.schedule.state_dict()
        self.run.save("last.pt", checkpoint)
        self.saved_at = time.monotonic()

    def _restore(self) -> bool:
        """Go on from ``last.pt`` where there is one."""
        saved = self.run.restore("last.pt", torch.device("cpu"), "model", "progress", "state", "random")
        if saved is None:
            return False
        self.run.load_weights(self.model, saved, "last.pt")
        self.progress = Progress(**saved["progress"])
        self.state = tuple(part.to(self.device) for part in saved["state"])
        torch.set_rng_state(saved["random"]["cpu"])
        if self.device.type == "cuda" and "cuda" in saved["random"]:
            torch.cuda.set_rng_state(saved["random"]["cuda"], self.device)
        if self.parameters:
            self.optimizer.load_state_dict(saved["optimizer"])
            self.schedule.load_state_dict(saved["schedule"])
        return True
