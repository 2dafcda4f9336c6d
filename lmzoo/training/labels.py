"""A run of a model of labels from its configuration to its results; as `lmzoo.training.session` for language models."""

import contextlib
import logging
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import lmzoo.labels  # noqa: F401 - its import registers the models
from lmzoo.core.errors import UserError, printable
from lmzoo.core.options import NonNegative, Seed, call
from lmzoo.core.plugins import load_plugins
from lmzoo.corpus import Vocabulary
from lmzoo.labels.model import Labeller, Learnt, labellers
from lmzoo.labels.tasks import Loaded, load_task
from lmzoo.protocol.model import LanguageModel, Trained
from lmzoo.runs.board import Board
from lmzoo.runs.directory import Run
from lmzoo.runs.labellers import load_labeller, taken
from lmzoo.runs.loading import load
from lmzoo.runs.log import log_warnings, logging_to
from lmzoo.runs.provenance import origins
from lmzoo.runs.results import summary
from lmzoo.training.steps import Position, take_steps

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``configs/label.yaml`` sets; see the comments there."""

    seed: Seed
    run_dir: str
    plugins: list[str]
    checkpoint_seconds: NonNegative
    task: dict
    labeller: dict


def learn(config: Mapping[str, Any], told: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Do the run that a resolved configuration describes, or go on with it. A finished run is only reported.

    Args:
        told: the options that tell the run from others, which TensorBoard shows; see `lmzoo.runs.naming.telling`.

    Returns: the contents of ``results.json``.

    Raises: UserError for a mistake in the configuration or its surroundings. Interrupted after SIGINT or SIGTERM.
    """
    settings: Settings = call(Settings, config, "")
    run = Run(Path(settings.run_dir))
    run.check(config)
    load_plugins(settings.plugins)
    labeller: Labeller = labellers.build(settings.labeller)
    task = load_task(settings.task, labeller, settings.labeller["name"])
    made_from = origins(labellers.sources(settings.labeller), "word")
    with run.alone():
        run.check(config)
        run.check_text(task.corpus)
        run.check_made_from(made_from)
        if results := run.results():
            print(f"already finished: {printable(str(run.path))}\n{summary(results)}")
            return results
        run.begin(config, task.corpus, made_from)
        board = Board(run.path)
        with logging_to(run.path / "train.log"), contextlib.closing(board):
            log.info("%s on %s: %s", settings.labeller["name"], task.corpus.name, run.path)
            log_warnings(task.corpus.warnings)
            for note in dict.fromkeys(task.task.notes):
                log.warning("%s", note)
            learner = _Learner(labeller, task, run, settings)
            take_steps(learner, learner.position, board, learner.save, settings.checkpoint_seconds,
                       "choose other options and another run_dir")  # fmt: skip
            results = _results(settings, learner)
            metrics = {f"result/{split}": figure for split, figure in results["figures"].items()}
            board.hyperparameters({"labeller": results["labeller"], **(told or {})}, metrics, learner.tokens(10**9))
            board.close()
            run.finish(results)
    print(summary(results))
    return results


class _Learner:
    """A labeller that learns in a run, from where ``last.pt`` stands.

    Where it asks for that it is measured on valid after each epoch, and the best one is kept.
    """

    def __init__(self, labeller: Labeller, task: Loaded, run: Run, settings: Settings):
        self.labeller, self.run = labeller, run
        self.task, self.texts, self.corpus = task
        train = task.texts["train"].sentences
        self.words = sum(len(sentence.words) for sentence in train)
        self.known = {word for sentence in train for word in sentence.words}
        self.position, self.best = Position(), -math.inf
        started = time.monotonic()
        if labeller.reads_with is not None:
            option, folder = labeller.reads_with
            model, vocabulary = _opened(option, folder)
            labeller.read_with(Trained(folder, Run(Path(folder)).config()["model"], model), vocabulary)
        if labeller.made_of is not None:
            option, folders = labeller.made_of
            labeller.join([_learnt(option, folder, settings) for folder in folders])
        coded = task.task.coded
        labeller.start([replace(sentence, labels=coded(sentence.labels)) for sentence in train], settings.seed)
        saved = run.restore("last.pt", torch.device("cpu"), "position", "best", "progress")
        if saved is None:
            if labeller.starts_from is not None:
                labeller.inherit(*_opened(*labeller.starts_from))
            self.position.seconds = time.monotonic() - started
            return
        taken(run, "last.pt", saved["progress"], labeller.go_on)
        with run.reading("last.pt"):
            if not isinstance(saved["best"], float):
                raise UserError("does not say how good the best labels were")
            self.position, self.best = call(Position, saved["position"], "position."), saved["best"]
        log.info("resumed at step %d, %.1f s of training behind it", self.position.step, self.position.seconds)

    @property
    def steps(self) -> int:
        return self.labeller.steps

    def tokens(self, number: int) -> int:
        return self.words * min(number, self.steps) // self.labeller.epoch

    def step(self, number: int) -> dict[str, float]:
        metrics = self.labeller.step(number)
        finite = all(map(math.isfinite, metrics.values()))
        if finite and self.labeller.checked and "valid" in self.texts and (number + 1) % self.labeller.epoch == 0:
            figures, _ = self.measured("valid")
            figure = figures[self.task.measure]
            metrics[f"{self.task.measure}/valid"] = figure
            log.info("epoch %d: valid %s %.2f", (number + 1) // self.labeller.epoch, self.task.measure, 100 * figure)
            if figure > self.best:
                self.best = figure
                self.keep()
        return metrics

    def keep(self) -> None:
        """Let the labeller of now be the best one."""
        form = {} if self.task.form is None else {"form": vars(self.task.form)}
        self.run.save("best.pt", {"state": self.labeller.state(), **form})

    def save(self) -> None:
        """Write ``last.pt``."""
        progress = self.labeller.progress()
        self.run.save("last.pt", {"position": vars(self.position), "best": self.best, "progress": progress})

    def measured(self, split: str) -> tuple[dict[str, Any], bytes]:
        """The figures of a text, and the text with the labels that the model gives."""
        text = self.texts[split]
        predicted = [self.task.plain(labels) for labels in self.labeller.label(text.sentences)]
        figures = self.task.figures(text.sentences, predicted, self.known)
        return figures | self.labeller.figures(text.sentences), text.written(predicted)


@contextlib.contextmanager
def _naming(option: str) -> Iterator[None]:
    """A context in which an error names the option that names a run; its advice is for those who train that run."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{option}: {error.problem}", "choose another run") from None


def _opened(option: str, folder: str) -> tuple[LanguageModel, Vocabulary]:
    """The language model of a run that an option names."""
    with _naming(option):
        return load(folder)


def _learnt(option: str, folder: str, settings: Settings) -> Learnt:
    """The labeller of a run that an option names.

    Raises: UserError as `load_labeller` does, where it was learnt from another form of text than that of the task, and
    where it needs plugins that the settings lack.
    """
    with _naming(option):
        found = load_labeller(Path(folder))
    for name, value in settings.task.items():
        theirs = found.task.get(name)
        if name not in ("train", "valid", "test") and theirs != value:
            there, here = ("null" if given is None else given for given in (theirs, value))
            raise UserError(f"{option}: {folder} has task.{name}={there}, and here it is {here}",
                            "repeat its options of task, or choose another run")  # fmt: skip
    if missing := [name for name in found.plugins if name not in settings.plugins]:
        raise UserError(f"{option}: {folder} needs plugins", f"add {', '.join(missing)} to plugins")
    warning = Run(Path(folder)).unfinished()
    if warning:
        log.warning("%s", warning)
    return found


def _results(settings: Settings, learner: _Learner) -> dict[str, Any]:
    """The figures of the best labeller, which the other commands load. Its labels are written."""
    run, texts, measure = learner.run, learner.texts, learner.task.measure
    if learner.best == -math.inf:
        learner.keep()
    checkpoint = run.restore("best.pt", torch.device("cpu"), "state")
    assert checkpoint is not None
    taken(run, "best.pt", checkpoint["state"], learner.labeller.take)
    started = time.monotonic()
    measured = {}
    for split in ("valid", "test"):
        if split in texts:
            measured[split], written = learner.measured(split)
            run.write(f"{split}.labels", written)
    return {
        "labeller": settings.labeller["name"],
        "task": learner.corpus.name,
        "measure": measure,
        "figures": {split: figures[measure] for split, figures in measured.items()},
        "details": measured,
        "words": {split: sum(len(s.words) for s in text.sentences) for split, text in texts.items()},
        "seconds": round(learner.position.seconds, 3),
        "labelling_seconds": round(time.monotonic() - started, 3),
        "seed": settings.seed,
        "warnings": learner.corpus.warnings,
    }
