"""The training loop of language models."""

import dataclasses
import functools
import itertools
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from lmzoo.core import ranks
from lmzoo.core.errors import Interrupted, UserError, error_prefix
from lmzoo.core.iterations import StateDict, iterated_by
from lmzoo.core.memory import trim_heap
from lmzoo.core.options import call
from lmzoo.core.progress import Bar
from lmzoo.core.registry import is_plugin
from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import Window
from lmzoo.protocol.model import LanguageModel, evaluating
from lmzoo.protocol.perplexity import ROUNDED, check_predictions, check_saved, score
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import load_sources, load_teacher, start_from
from lmzoo.runs.trainer_options import TrainerOptions
from lmzoo.training.descent import Descent
from lmzoo.training.loop import Loop, stop_signals
from lmzoo.training.optimization import NotFinite
from lmzoo.training.progress import Progress, random_state, set_random_state

ROUNDS = 10
CLEARLY = 1.2
"""The speed-up that bfloat16 must reach. CPUs with instructions for it reach at least about 2."""


def resolve_precision(options: TrainerOptions, model: LanguageModel, run: Run) -> TrainerOptions:
    """A copy of the options in which ``precision=auto`` is resolved to a type.

    A resumed run uses the type that it began with. A new one uses bfloat16 if its model supports it and its device is
    clearly faster in it, else float32.
    """
    if options.precision != "auto":
        return options
    if run.config_file.exists():
        with run.reading(run.config_file.name):
            begun = call(TrainerOptions, run.config()["trainer"], "trainer.").precision
            return dataclasses.replace(options, precision=begun)
    half = ranks.broadcast(model.autocast and faster_in_bfloat16(model.device))
    return dataclasses.replace(options, precision="bfloat16" if half else "float32")


@functools.cache
def faster_in_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies clearly faster in bfloat16 than in float32; measured on CPUs.

    PyTorch reports bfloat16 as supported on every CPU with AVX-512, even if it is slower for lack of instructions.
    """
    if device.type == "cuda":
        with torch.cuda.device(device):
            return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    single, half = (torch.ones(256, 256, dtype=dtype) for dtype in (torch.float32, torch.bfloat16))
    rounds = [(_seconds(single), _seconds(half)) for _ in range(ROUNDS)]  # alternate, so that disturbances affect both
    shortest, shortest_half = (min(times) for times in zip(*rounds, strict=True))
    return shortest >= CLEARLY * shortest_half


def _seconds(matrix: Tensor) -> float:
    """The time for a product of the matrix with itself, in seconds."""
    started = time.perf_counter()
    torch.mm(matrix, matrix)
    return time.perf_counter() - started


log = logging.getLogger(__name__)


class Trainer(Loop):
    """Trains a language model on a corpus in a run directory; raises a UserError if an option is invalid.

    ``descent`` trains the parameters; None for a model without any.
    ``observe(progress, metrics)`` is called after every step with scalars tagged ``train/…``, and after every
    validation of a descent with ``perplexity/valid``.

    Attributes:
        new_model: makes another model of the same options, which must be able to load a plug-in's weights; None: none.
    """

    new_model: Callable[[], LanguageModel] | None = None

    def __init__(
        self,
        model: LanguageModel,
        corpus: Corpus,
        run: Run,
        options: TrainerOptions,
        descent: Descent | None,
        observe: Callable[[Progress, dict[str, float]], None],
    ):
        super().__init__(run, options.checkpoint_seconds)
        self.model, self.corpus, self.options = model, corpus, options
        self.descent, self.observe = descent, observe
        self.loops: dict[int, tuple[int, StateDict]] = {}  # of an unfinished estimation, by number
        self.iterating, self.numbers = False, itertools.count()  # of the loops
        if descent is not None:
            if options.precision == "bfloat16" and not model.autocast:
                problem = "trainer.precision=bfloat16: the model supports only float32"
                raise UserError(problem, "set trainer.precision=float32")
            if options.average == "tail" and options.average_after >= options.epochs:
                raise UserError(
                    f"trainer.average_after={options.average_after}: {options.epochs} epochs leave none to average",
                    "lower it, or train for more epochs",
                )
        if options.from_ is not None and descent is None:
            raise UserError(f"trainer.from={options.from_}: needs a model that learns by gradient", "leave it out")
        if not (options.epochs or options.from_ or model.starts_from):
            raise UserError("trainer.epochs=0: evaluates the weights of other runs", "name them in trainer.from")

    def fit(self) -> None:
        """Estimate unless resumed, then descend until the last epoch or until patience is exhausted.

        Raises: Interrupted after SIGINT or SIGTERM in iterations or descent, and UserError if the loss or its gradient
            is not finite; ``last.pt`` is then the checkpoint to resume from.
        """
        self.started = time.monotonic() - self.progress.seconds
        try:
            if not self.progress.finished:
                load_teacher(self.model, self.corpus)
            if not self.resumed:
                self._estimate()  # outside its iterations there is nothing to save, so a signal ends it at once
            if self.descent is not None:
                self.descent.share()
                self.model.train()
                self.go(self.descent.steps)
        except NotFinite as error:
            raise UserError(
                str(error),
                f"the last good checkpoint is {self.run.path / 'last.pt'}; "
                "lower optimizer.lr or trainer.clip and choose another run_dir",
            ) from None

    def take_steps(self, bar: Bar) -> Iterator[bool]:
        descent, progress, per_epoch = self.descent, self.progress, self.options.checks_per_epoch
        assert descent is not None
        windows = descent.windows
        validations = {len(windows) * number // per_epoch for number in range(1, per_epoch + 1)}
        while not progress.finished:
            for window in windows.epoch(progress.epoch, skip=progress.window):
                metrics = self._step(descent, window)
                mean = math.exp(min(progress.nats / progress.trained, 700))  # since the last validation
                speed = f"{progress.tokens / progress.step_seconds:,.0f} tokens/s"
                bar.update(f"train perplexity {mean:.2f}", f"rate {metrics['train/learning_rate']:.3g}", speed)
                if validated := progress.window in validations:
                    valid = self._validate(descent)
                    if progress.window == len(windows):
                        progress.epoch, progress.window = progress.epoch + 1, 0
                    progress.note_check(round(progress.epoch + progress.window / len(windows), 3), valid)
                    stalled = self.options.patience is not None and progress.stale >= self.options.patience
                    progress.finished = stalled or progress.epoch >= self.options.epochs
                yield validated
                if progress.finished:
                    break

    def _step(self, descent: Descent, window: Window) -> dict[str, float]:
        """Take a step and record it. Returns: metrics by TensorBoard tag."""
        progress, begun = self.progress, time.monotonic()
        try:
            metrics = descent.step(window)
        except NotFinite as error:
            raise NotFinite(f"{error} at step {progress.step + 1}") from None
        if self._averages(descent):
            descent.optimization.average.update()
        trim_heap()
        elapsed = time.monotonic() - begun
        progress.note_step(window.count, metrics["perplexity/train"], elapsed)
        progress.seconds = time.monotonic() - self.started
        self.observe(progress, metrics | {"train/tokens_per_second": window.count / elapsed})
        return metrics

    def _averages(self, descent: Descent) -> bool:
        """Whether the last step enters the average."""
        kind, after = self.options.average, self.options.average_after
        if kind == "nt":
            return descent.optimization.average.steps > 0 or has_stalled(
                [check["valid"] for check in self.progress.checks], after
            )
        return kind == "ema" or (kind == "tail" and self.progress.epoch >= after)

    def _validate(self, descent: Descent) -> float:
        """Compute validation perplexity and save the best weights, in both cases averaged ones if there are any."""
        progress, corpus = self.progress, self.corpus
        with descent.optimization.average.in_place():
            found = score(self.model, corpus.splits["valid"], corpus.context, corpus.conditions.get("valid"))
            valid = ranks.broadcast(found.perplexity)
            if not math.isfinite(valid):
                raise NotFinite(f"validation perplexity is {valid} at step {progress.step}")
            progress.stale += 1
            if valid < progress.best:
                progress.best, progress.stale = valid, 0
                self._save_best()
            descent.optimization.note_validation(valid)
            progress.seconds = time.monotonic() - self.started
            self.observe(progress, {"perplexity/valid": valid})
        return valid

    def _save_best(self) -> None:
        if ranks.is_main():
            self.run.save("best.pt", {"model": self.model.state_dict()})

    def _estimate(self) -> None:
        if self.options.from_ is not None:
            start_from(self.model, self.corpus, self.options.from_, self.run.config()["model"])
        else:
            load_sources(self.model, self.corpus)
            with ExitStack() as stack:
                if ranks.world_size() == 1:  # ranks may iterate differently, so they save no iterations
                    self.stopped = stack.enter_context(stop_signals(lambda: self.iterating))
                    stack.enter_context(iterated_by(self.iterate))
                self.model.estimate(self.corpus)
        stopped = self.stopped()
        self.progress.step_seconds = self.progress.seconds = time.monotonic() - self.started
        model, valid = self.model, self.corpus.splits["valid"][None, :8]
        if is_plugin(type(model)) and not (model.whole_sentences or model.open_vocabulary):
            with evaluating(model), error_prefix(type(model).__name__):
                check_predictions(model, tokens := valid.to(model.device).long(), ROUNDED)
                if self.new_model is not None:
                    with torch.random.fork_rng(devices=[]):  # leave the random state as without the second model
                        other = self.new_model()
                    check_saved(model, other, tokens, ROUNDED)
        self._seed_other_ranks()
        if self.descent is not None:
            self.descent.begin()
            if self.options.from_ is not None or self.model.starts_from is not None:
                self._validate(self.descent)
            self.progress.finished = not self.options.epochs
        else:
            self.progress.tokens = len(self.corpus.splits["train"])
            self.progress.finished = True
            self._save_best()
        self.loops = {}
        self.save()
        if stopped:
            raise Interrupted

    def iterate(
        self, total: int, what: str, state_dict: Callable[[], StateDict], load_state_dict: Callable[[StateDict], None],
        start: Callable[[], None], notes: Callable[[], Sequence[str]],
    ) -> Iterator[int]:  # fmt: skip
        """A loop of the estimation, with checkpoints; see `lmzoo.core.iterations.iterations`."""
        if self.stopped():  # in the last iteration of the previous loop, which is repeated
            raise Interrupted
        loop = next(self.numbers)
        begun, state = self.loops.get(loop, (0, {}))
        if begun:
            log.info("estimation resumed after iteration %d", begun)
            with self.run.reading("last.pt"):
                load_state_dict(state)
        else:
            start()
        self.iterating = True
        try:
            with Bar(total, "iteration", what, begun) as bar:
                for done in range(begun + 1, total + 1):
                    yield done - 1
                    bar.update(*notes())
                    self.progress.seconds = time.monotonic() - self.started
                    self.save_if(False, lambda done=done: self.loops.update({loop: (done, state_dict())}))
        finally:
            self.iterating = False

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint, without the weights if those of ``best.pt`` are the last."""
        random, *others = ranks.all_gather(random_state(self.model.device))
        state: dict[str, Any] = {"state": ()} if self.descent is None or self.loops else self.descent.state_dict()
        state["random"] = random
        if self.descent is not None or self.loops:
            state["model"] = self.model.state_dict()
        if others:
            state["other_ranks_random"] = tuple(others)
        if self.loops:
            state["estimation"] = {str(loop): {"done": done, **of} for loop, (done, of) in self.loops.items()}
        return state

    def restore(self) -> None:
        """Restore ``last.pt`` if it exists; raise a UserError if it is damaged. Call it inside `Run.exclusive_lock`."""
        own = ["model"] if self.descent is not None else []
        saved = self.run.restore("last.pt", "progress", "state", "random", *own)
        if saved is None:
            return
        name = "last.pt" if "model" in saved else "best.pt"
        weights = saved if "model" in saved else self.run.restore(name, "model")
        if weights is None:
            raise self.run.unusable(name, "is missing, and last.pt has no weights")
        self.run.load_weights(self.model, weights, name)
        with self.run.reading("last.pt"):
            self._restore_progress(saved)

    def _restore_progress(self, saved: dict[str, Any]) -> None:
        """Restore the contents of a checkpoint besides the weights."""
        self.progress = Progress(**saved["progress"])
        if "estimation" in saved:
            if ranks.world_size() == 1:
                self.loops = {int(loop): (state.pop("done"), state) for loop, state in saved["estimation"].items()}
            return
        if self.descent is not None:
            self.descent.load_state_dict(saved)
        numbers = (saved["random"], *saved.get("other_ranks_random", ()))[: ranks.world_size()]
        set_random_state(numbers[min(ranks.rank(), len(numbers) - 1)], self.model.device)
        if ranks.rank() >= len(numbers):
            self._seed_other_ranks()
        self.resumed = True

    def _seed_other_ranks(self) -> None:
        """Seed the random numbers of each other rank differently from rank 0."""
        if ranks.rank():
            torch.manual_seed(hash((torch.initial_seed(), ranks.rank(), self.progress.step)))


def has_stalled(perplexities: Sequence[float], checks: int) -> bool:
    """Whether the last validation perplexity is worse than the best before the ``checks`` validations preceding it.

    The trigger of NT-ASGD: Merity, Keskar & Socher (2018), algorithm 1, https://arxiv.org/abs/1708.02182
    """
    return len(perplexities) > checks + 1 and perplexities[-1] > min(perplexities[: -checks - 1])
