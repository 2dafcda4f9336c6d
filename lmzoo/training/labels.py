"""A labeller that learns in a run."""

import contextlib
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import lmzoo.labels  # noqa: F401 - its import registers the models
from lmzoo.core.errors import UserError
from lmzoo.corpus import Vocabulary
from lmzoo.labels.model import Labeller, Learnt, labellers
from lmzoo.labels.tasks import load_task
from lmzoo.protocol.model import LanguageModel, Trained
from lmzoo.runs.directory import Run
from lmzoo.runs.labellers import load_labeller, restore
from lmzoo.runs.loading import load
from lmzoo.training.session import log
from lmzoo.training.steps import SteppedLearner, SteppedOptions


@dataclass(frozen=True, kw_only=True)
class Options(SteppedOptions):
    """What ``configs/label.yaml`` sets."""

    task: dict
    labeller: dict


class Learning(SteppedLearner):
    """A labeller. Where it asks for that it is measured on valid after each epoch, and the best one is kept."""

    needed = ("best", "progress")

    options: Options

    def __init__(self, options: Options, run: Run):
        super().__init__(run, options)
        self.labeller: Labeller = labellers.build(options.labeller)
        self.task, self.texts, self.corpus = load_task(options.task, self.labeller, options.labeller["name"])
        self.sources = labellers.sources(options.labeller)
        self.train = self.texts["train"].sentences
        self.known = {word for sentence in self.train for word in sentence.words}
        self.words, self.best = sum(len(sentence.words) for sentence in self.train), -math.inf

    @property
    def cpu_alone(self) -> str | None:
        return None if self.labeller.any_device else f"labeller={self.options.labeller['name']}"

    @property
    def steps(self) -> int:
        return self.labeller.steps

    def tokens_after(self, number: int) -> int:
        return self.words * min(number, self.steps) // self.labeller.epoch

    def start(self) -> None:
        labeller = self.labeller
        labeller.device = self.device
        if labeller.reads_with is not None:
            option, folder = labeller.reads_with
            model, vocabulary = _opened(option, folder)
            labeller.read_with(Trained(folder, Run(Path(folder)).config()["model"], model), vocabulary)
        if labeller.made_of is not None:
            option, folders = labeller.made_of
            labeller.join([_learnt(option, folder, self.options) for folder in folders])
        coded = self.task.coded
        labeller.start([replace(sentence, labels=coded(sentence.labels)) for sentence in self.train], self.options.seed)

    def begin(self) -> None:
        if self.labeller.starts_from is not None:
            self.labeller.inherit(*_opened(*self.labeller.starts_from))

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "progress": self.labeller.progress()}

    def go_on(self, saved: dict[str, Any]) -> None:
        restore(self.run, "last.pt", saved["progress"], self.labeller.go_on)
        self.best = saved["best"]

    def described(self) -> Iterator[str]:
        yield f"{self.options.labeller['name']} on {self.corpus.name}, {self.device}: {self.run.path}"
        yield from dict.fromkeys(self.task.notes)

    def take_step(self, number: int) -> dict[str, float]:
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

    def measured(self, split: str) -> tuple[dict[str, Any], bytes]:
        """The figures of a text, and the text with the labels that the model gives."""
        text = self.texts[split]
        predicted = [self.task.plain(labels) for labels in self.labeller.label(text.sentences)]
        figures = self.task.figures(text.sentences, predicted, self.known)
        return figures | self.labeller.figures(text.sentences), text.written(predicted)

    def measure(self) -> dict[str, Any]:
        """The figures of the best labeller, which the other commands load. Its labels are written."""
        if self.best == -math.inf:
            self.keep()
        checkpoint = self.run.restore("best.pt", torch.device("cpu"), "state")
        assert checkpoint is not None
        restore(self.run, "best.pt", checkpoint["state"], self.labeller.take)
        started, measured = time.monotonic(), {}
        for split in ("valid", "test"):
            if split in self.texts:
                measured[split], written = self.measured(split)
                self.run.write(f"{split}.labels", written)
        return {
            "task": self.corpus.name,
            "measure": self.task.measure,
            "figures": {split: figures[self.task.measure] for split, figures in measured.items()},
            "details": measured,
            "words": {split: sum(len(s.words) for s in text.sentences) for split, text in self.texts.items()},
            "seconds": round(self.seconds, 3),
            "labelling_seconds": round(time.monotonic() - started, 3),
            "device": str(self.device),
            "warnings": self.corpus.warnings,
        }


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


def _learnt(option: str, folder: str, options: Options) -> Learnt:
    """The labeller of a run that an option names.

    Raises: UserError as `load_labeller` does, where it was learnt from another form of text than that of the task, and
    where it needs plugins that the options lack.
    """
    with _naming(option):
        found = load_labeller(Path(folder))
    for name, value in options.task.items():
        theirs = found.task.get(name)
        if name not in ("train", "valid", "test") and theirs != value:
            there, here = ("null" if given is None else given for given in (theirs, value))
            raise UserError(f"{option}: {folder} has task.{name}={there}, and here it is {here}",
                            "repeat its options of task, or choose another run")  # fmt: skip
    if missing := [name for name in found.plugins if name not in options.plugins]:
        raise UserError(f"{option}: {folder} needs plugins", f"add {', '.join(missing)} to plugins")
    if warning := Run(Path(folder)).unfinished():
        log.warning("%s", warning)
    return found
