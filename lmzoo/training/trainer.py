"""The loop that trains any model."""

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import Any

import torch

from lmzoo.core import ranks
from lmzoo.core.errors import Interrupted, UserError, one_line, out_of_memory
from lmzoo.core.iterations import Keeper, StateDict, kept_by
from lmzoo.core.options import call
from lmzoo.core.progress import Bar
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import Window
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.perplexity import score
from lmzoo.runs.checkpoint import same_form
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import hand_over, start_from
from lmzoo.runs.results import require_curve
from lmzoo.training.descent import Descent, NotFinite
from lmzoo.training.options import TrainerOptions
from lmzoo.training.precision import settled
from lmzoo.training.progress import Progress
from lmzoo.training.signals import stop_signals

log = logging.getLogger(__name__)


_SINCE = {"nats": 0.0, "trained": 0, "checks": []}
"""What checkpoints of earlier versions do not say of a run's progress."""


class Trainer(Keeper):
    """Fits one model to one corpus in one run directory.

    After every step ``observe(progress, metrics)`` is called with scalars tagged ``train/…``; after every check with
    ``perplexity/valid``.

    Raises: UserError for a bad option.
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
        options = settled(options, model, run)
        if options.precision == "bfloat16" and not model.autocast:
            raise UserError(
                f"trainer.precision=bfloat16: {type(model).__name__} computes in float32 alone",
                "set trainer.precision=float32",
            )
        self.model, self.corpus, self.run, self.options, self.observe = model, corpus, run, options, observe
        self.progress = Progress()
        self.descent: Descent | None = None
        if any(parameter.requires_grad for parameter in model.parameters()):
            if options.average == "tail" and options.average_after >= options.epochs:
                raise UserError(
                    f"trainer.average_after={options.average_after}: {options.epochs} epochs leave none to average",
                    "lower it, or train for more epochs",
                )
            self.descent = Descent(model, corpus, options, optimizer=optimizer, schedule=schedule, seed=seed)
        if options.from_ is not None and self.descent is None:
            raise UserError(f"trainer.from={options.from_}: needs a model that learns by gradient", "leave it out")
        self.resumed = False
        self.loops: dict[int, tuple[int, StateDict]] = {}  # of an estimation that is not over
        self.stopped: Callable[[], bool] = lambda: False
        self.saved_at = time.monotonic()

    def fit(self) -> None:
        """Estimate, unless `restore` has found a checkpoint. Then descend until the last epoch, or until patience ends.

        Raises: Interrupted after SIGINT or SIGTERM in iterations or the descent, and UserError where the loss or its
            gradient is not finite; in both cases ``last.pt`` is what training goes on from.
        """
        if not self.resumed:
            self._estimate()  # but for its iterations there is nothing to save, so a signal ends it at once
        if self.descent is None or self.progress.finished:
            return
        self.descent.share()
        self.model.train()
        with stop_signals() as stopped, Bar(self.descent.steps, "step", done=self.progress.step) as bar:
            while not self.progress.finished:
                self._epoch(self.descent, stopped, bar)

    def _estimate(self) -> None:
        self.started = time.monotonic() - self.progress.seconds
        if self.options.from_ is None:
            hand_over(self.model, self.corpus)
            with self._iterating():
                self.model.estimate(self.corpus)
        else:
            start_from(self.model, self.corpus, self.options.from_, self.run.config()["model"])
        stopped = self.stopped()
        self.progress.step_seconds = self.progress.seconds = time.monotonic() - self.started
        self._draw_apart()
        if self.descent is not None:
            self.descent.begin()
            if self.options.from_ is not None:
                log.info("the weights are those of %s; optimizer and schedule begin anew", self.options.from_)
                self._check()
        else:
            self.progress.tokens = len(self.corpus.splits["train"])
            self.progress.finished = True
            self._check()
        self.loops = {}
        self.save()
        if stopped:
            raise Interrupted

    def begin(self, loop: int, load_state_dict: Callable[[StateDict], None]) -> int:
        """Let a loop of the estimation go on where it was saved; see `lmzoo.core.iterations`."""
        if self.stopped():  # in the last iteration of the loop before, which is done again
            raise Interrupted
        self.iterating = True
        if loop not in self.loops:
            return 0
        done, state = self.loops[loop]
        log.info("the estimation goes on after iteration %d", done)
        with self.run.reading("last.pt"):
            try:
                load_state_dict(state)
            except (KeyError, TypeError, ValueError, RuntimeError) as error:
                raise UserError(f"holds nothing of this estimation ({one_line(error)})") from None
        return done

    def end(self) -> None:
        """A loop of the estimation has ended."""
        self.iterating = False

    @contextmanager
    def _iterating(self) -> Iterator[None]:
        """A context in which iterations are saved. Of several ranks, which may not iterate alike, none does so."""
        if ranks.world_size() > 1:
            yield
            return
        self.iterating = False
        with stop_signals(lambda: self.iterating) as self.stopped, kept_by(self):
            yield

    def note(self, loop: int, done: int, state_dict: Callable[[], StateDict]) -> None:
        """An iteration of the estimation is done. Raises: Interrupted after a signal, when it is saved."""
        stop = self.stopped()
        if stop or time.monotonic() - self.saved_at >= self.options.checkpoint_seconds:
            self.loops[loop] = done, dict(state_dict())
            self.progress.seconds = time.monotonic() - self.started
            self.save()
        if stop:
            raise Interrupted

    def _epoch(self, descent: Descent, stopped: Callable[[], bool], bar: Bar) -> None:
        """The rest of the current epoch."""
        progress, windows, checks = self.progress, descent.windows, self._check_points(len(descent.windows))
        clock = time.monotonic()
        for window in windows.epoch(progress.epoch, skip=progress.window):
            started = time.monotonic()
            metrics = self._step(descent, window)
            if self._averages(descent):
                descent.average.note()
            progress.window += 1
            progress.step += 1
            progress.tokens += window.count
            progress.nats += window.count * math.log(metrics["perplexity/train"])
            progress.trained += window.count
            elapsed = time.monotonic() - started
            progress.step_seconds += elapsed
            self.observe(progress, metrics | {"train/tokens_per_second": window.count / elapsed})
            bar.update(*_told(progress, metrics))
            valid = self._check() if progress.window in checks else None
            progress.seconds, clock = progress.seconds + time.monotonic() - clock, time.monotonic()
            if valid is not None:
                if progress.window == len(windows):
                    progress.epoch, progress.window = progress.epoch + 1, 0
                progress.note_check(round(progress.epoch + progress.window / len(windows), 3), valid)
                stalled = self.options.patience is not None and progress.stale >= self.options.patience
                progress.finished = stalled or progress.epoch == self.options.epochs
                self.save()
            late = time.monotonic() - self.saved_at >= self.options.checkpoint_seconds
            save, stop = ranks.any_rank(late and valid is None, stopped())
            if save or stop:
                self.save()
            if stop:
                raise Interrupted
            if progress.finished:
                return

    def _step(self, descent: Descent, window: Window) -> dict[str, float]:
        try:
            return descent.step(window)
        except NotFinite as error:
            raise self._not_finite(str(error), self.progress.step + 1) from None

    def _averages(self, descent: Descent) -> bool:
        """Whether the step just taken is one of those that are averaged."""
        kind, after = self.options.average, self.options.average_after
        if kind == "nt":
            return descent.average.steps > 0 or has_stalled([check["valid"] for check in self.progress.checks], after)
        return kind == "ema" or (kind == "tail" and self.progress.epoch >= after)

    def _check_points(self, windows: int) -> set[int]:
        """After how many windows of an epoch validation perplexity is measured."""
        return {windows * (i + 1) // self.options.checks_per_epoch for i in range(self.options.checks_per_epoch)}

    def _not_finite(self, what: str, step: int) -> UserError:
        return UserError(
            f"{what} at step {step}",
            f"the last good checkpoint is {self.run.path / 'last.pt'}; "
            "lower optimizer.lr or trainer.clip and choose another run_dir",
        )

    def _check(self) -> float:
        """Validation perplexity; the best weights are kept. Both are of the averaged weights, where there are any."""
        with nullcontext() if self.descent is None else self.descent.average.in_place():
            return self._check_weights()

    def _check_weights(self) -> float:
        progress = self.progress
        corpus = self.corpus
        valid = score(self.model, corpus.splits["valid"], corpus.context, corpus.conditions.get("valid")).perplexity
        valid = ranks.broadcast(valid)
        if self.descent is not None and not math.isfinite(valid):
            raise self._not_finite(f"validation perplexity is {valid}", progress.step)
        if valid < progress.best or self.descent is None:
            progress.best, progress.stale = valid, 0
            if ranks.is_main():
                self.run.save("best.pt", {"model": self.model.state_dict()})
        else:
            progress.stale += 1
        if self.descent is not None:
            self.descent.note_validation(valid)
        self.observe(progress, {"perplexity/valid": valid})
        return valid

    def save(self) -> None:
        """Write ``last.pt``."""
        device = self.model.device
        random = {"cpu": torch.get_rng_state()}
        if device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(device)
        random, *others = ranks.all_gather(random)
        descent = {"state": ()} if self.descent is None or self.loops else self.descent.state_dict()
        checkpoint = {"model": self.model.state_dict(), "progress": asdict(self.progress), "random": random}
        if others:
            checkpoint["other_ranks_random"] = tuple(others)
        if self.loops:
            checkpoint["estimation"] = {
                str(loop): {"done": done, **state} for loop, (done, state) in self.loops.items()
            }
        if ranks.is_main():
            self.run.save("last.pt", checkpoint | descent)
        self.saved_at = time.monotonic()

    def restore(self) -> None:
        """Go on from ``last.pt`` where there is one. Call it inside `Run.alone`.

        Raises: UserError for a file that is damaged or another run's.
        """
        saved = self.run.restore("last.pt", torch.device("cpu"), "model", "progress", "state", "random")
        if saved is None:
            return
        self.run.load_weights(self.model, saved, "last.pt")
        with self.run.reading("last.pt"):
            if not isinstance(saved["progress"], dict):
                raise UserError("does not say how far training had come")
            self.progress = call(Progress, _SINCE | saved["progress"], "progress.")
            require_curve(self.progress.checks)
            if "estimation" in saved:
                if ranks.world_size() == 1:
                    self.loops = _loops(saved["estimation"])
                return
            if self.descent is not None:
                if not self.progress.finished:
                    self._check_place(len(self.descent.windows))
                self.descent.load_state_dict(saved, begun=self.progress.window > 0)
            numbers = (saved["random"], *saved.get("other_ranks_random", ()))[: ranks.world_size()]
            _take_random(numbers[min(ranks.rank(), len(numbers) - 1)], self.model.device)
            if ranks.rank() >= len(numbers):
                self._draw_apart()
        self.resumed = True

    def _draw_apart(self) -> None:
        """Let the random numbers of the other ranks be unlike those of rank 0."""
        if ranks.rank():
            torch.manual_seed(hash((torch.initial_seed(), ranks.rank(), self.progress.step)))

    def _check_place(self, windows: int) -> None:
        """Raise a UserError where training cannot go on from the place that a checkpoint names."""
        for name, end in (("epoch", self.options.epochs), ("window", windows)):
            if (place := getattr(self.progress, name)) >= end:
                raise UserError(f"progress.{name}={place}: must be below {end}")


def _loops(saved: Any) -> dict[int, tuple[int, StateDict]]:
    """The loops of an estimation in a checkpoint; a UserError where it has none."""
    loops = {}
    for loop, state in saved.items() if isinstance(saved, dict) and saved else [("", {})]:
        done = state.pop("done", None) if isinstance(state, dict) else None
        tensors = isinstance(state, dict) and all(isinstance(part, torch.Tensor) for part in state.values())
        if not (tensors and str(loop).isdecimal() and type(done) is int and done >= 0):
            raise UserError("holds nothing of this estimation")
        loops[int(loop)] = done, state
    return loops


def _take_random(saved: Any, device: torch.device) -> None:
    """Go on with the random numbers of a checkpoint; a UserError where it has none."""
    numbers = saved if isinstance(saved, dict) else {}
    try:
        if not same_form(numbers.get("cpu"), torch.get_rng_state()):
            raise UserError("has no random numbers to go on with")
        torch.set_rng_state(numbers["cpu"])
        if device.type == "cuda" and same_form(numbers.get("cuda"), torch.cuda.get_rng_state(device)):
            torch.cuda.set_rng_state(numbers["cuda"], device)
    except RuntimeError as error:  # PyTorch looks into them
        if out_of_memory(error):
            raise
        raise UserError("has no random numbers to go on with") from None


def _told(progress: Progress, metrics: Mapping[str, float]) -> tuple[str, str, str]:
    """What a line of the log tells of training: over the tokens since the last check, now, and since the start."""
    return (
        f"train perplexity {math.exp(min(progress.nats / progress.trained, 700)):.2f}",
        f"rate {metrics['train/learning_rate']:.3g}",
        f"{progress.tokens / progress.step_seconds:,.0f} tokens/s",
    )


def has_stalled(perplexities: Sequence[float], checks: int) -> bool:
    """Whether the last of some validation perplexities is worse than the best but for the last ``checks`` before it.

    The trigger of NT-ASGD: Merity, Keskar & Socher (2018), algorithm 1, https://arxiv.org/abs/1708.02182
    """
    return len(perplexities) > checks + 1 and perplexities[-1] > min(perplexities[: -checks - 1])
