"""Training of labellers."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import lmzoo.labels  # noqa: F401 - its import registers the models
from lmzoo.core.errors import UserError, error_prefix, format_value, pluralize
from lmzoo.corpus import Vocabulary
from lmzoo.labels.gradient import NetworkLabeller
from lmzoo.labels.model import Labeller, TrainedLabeller, labellers
from lmzoo.labels.tasks import load_task
from lmzoo.protocol.model import Trained
from lmzoo.runs.command_options import LabelOptions
from lmzoo.runs.directory import Run
from lmzoo.runs.labellers import load_labeller
from lmzoo.runs.loading import open_source_run
from lmzoo.training.optimization import Optimization
from lmzoo.training.session import log
from lmzoo.training.steps import SteppedLearner


class NetworkDescent:
    """Gradient descent of a neural labeller, after its `start`."""

    def __init__(self, labeller: NetworkLabeller):
        self.labeller, options = labeller, labeller.options
        optimizer, schedule = {"name": options.optimizer, "lr": options.lr}, {"name": options.schedule}
        with error_prefix("labeller"):
            self.optimization = Optimization(
                labeller.parameter_groups(), optimizer, schedule, steps_per_epoch=labeller.epoch, steps=labeller.steps,
                clip=labeller.clip, average_decay=options.average,
            )  # fmt: skip

    def step(self, number: int) -> dict[str, float]:
        """Take step ``number``, counted from 0. Returns: metrics by TensorBoard tag. Raises: NotFinite."""
        loss, terms = self.labeller.loss_at(number)
        norm = self.optimization.backward(loss)
        value = float(loss.detach())
        metrics = {"train/loss": value / terms, **self.optimization.step(value, norm, float(norm))}
        if self.labeller.options.average is not None:
            self.optimization.average.update()
        return metrics

    def state(self) -> dict[str, Any]:
        """What later steps depend on."""
        return {"network": self.labeller.network.state_dict(), **self.optimization.state_dict()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        self.labeller.network.load_state_dict(state["network"])
        self.optimization.load_state_dict(state)


def learner_of(labeller: Labeller) -> Labeller | NetworkDescent:
    """The object that performs the steps of a labeller, after its `start`."""
    return NetworkDescent(labeller) if isinstance(labeller, NetworkLabeller) else labeller


class Learning(SteppedLearner):
    """Train a labeller; if its ``checked`` is true, evaluate it on valid after each epoch and save the best."""

    options: LabelOptions
    model: Labeller

    def __init__(self, options: LabelOptions, run: Run):
        super().__init__(options, run, labellers, options.labeller)
        self.task, self.texts, self.corpus = load_task(options.task, self.model, self.name)
        by_valid = isinstance(self.model, NetworkLabeller) and self.model.options.schedule == "plateau"
        if by_valid and "valid" not in self.texts:
            raise UserError("labeller.schedule=plateau: needs a valid text, by which the rate falls", "name task.valid")
        self.train = self.texts["train"].sentences
        self.known_words = {word for sentence in self.train for word in sentence.words}
        self.text_tokens = sum(len(sentence.words) for sentence in self.train)

    def start(self) -> None:
        self.model.open_model, self.model.open_labeller = self.open_model, self.open_labeller
        coded = [replace(sentence, labels=self.task.to_model_scheme(sentence.labels)) for sentence in self.train]
        self.model.start(coded, self.options.seed)
        self.learner = learner_of(self.model)
        self.optimization = self.learner.optimization if isinstance(self.learner, NetworkDescent) else None

    def begin(self) -> None:
        self.model.begin()

    def describe(self) -> Iterator[str]:
        yield from super().describe()
        labels = {label for sentence in self.train for label in sentence.labels}
        noun = {"words": "sentence", "text": "text", "tree": "tree"}[self.model.kind]
        counts = (len(self.train), noun), (self.text_tokens, "word"), (len(labels), "label")
        size = ", ".join(pluralize(*count) for count in counts)
        for split, text in self.texts.items():
            if split != "train":
                words = [word for sentence in text.sentences for word in sentence.words]
                unknown = sum(word not in self.known_words for word in words) / len(words)
                size += f"; train lacks {100 * unknown:.1f}% of the words of {split}"
        yield size
        yield from dict.fromkeys(self.task.notes)

    def take_step(self, number: int) -> dict[str, float]:
        metrics = self.learner.step(number)
        finite = all(map(math.isfinite, metrics.values()))
        if finite and self.model.checked and "valid" in self.texts and (number + 1) % self.model.epoch == 0:
            with self.averaged_weights():
                figures, _ = self.evaluate_split("valid")
                figure = figures[self.task.measure]
                metrics[f"{self.task.measure}/valid"] = figure
                log.info("epoch %d: valid %s %.2f", (number + 1) // self.model.epoch, self.task.measure, 100 * figure)
                if -figure < self.progress.best:
                    self.progress.best = -figure
                    self.save_best()
            if self.optimization is not None:
                self.optimization.note_validation(-figure)
        return metrics

    def averaged_weights(self) -> AbstractContextManager[None]:
        """A context in which the weights are replaced by their average, if there is one."""
        return nullcontext() if self.optimization is None else self.optimization.average.in_place()

    def save_best(self) -> None:
        """Save the current labeller as the best."""
        self.run.save("best.pt", {"state": self.model.state_dict(), "form": vars(self.task.layout)})

    def evaluate_split(self, split: str) -> tuple[dict[str, Any], bytes]:
        """The figures of a split, and its text with predicted labels."""
        text = self.texts[split]
        predicted = [self.task.to_text_scheme(labels) for labels in self.model.label(text.sentences)]
        figures = self.task.figures(text.sentences, predicted, self.known_words)
        return figures | self.model.figures(text.sentences), text.written(predicted)

    def measure(self) -> dict[str, Any]:
        """The figures of the best labeller, the one that other commands load; its predictions are written."""
        if self.progress.best == math.inf:
            with self.averaged_weights():
                self.save_best()
        checkpoint = self.run.restore("best.pt", "state")
        assert checkpoint is not None
        self.model.load_state_dict(checkpoint["state"])
        started, measured = time.monotonic(), {}
        for split in ("valid", "test"):
            if split in self.texts:
                measured[split], written = self.evaluate_split(split)
                self.run.write(f"{split}.labels", written)
        return {
            "task": self.corpus.name,
            "measure": self.task.measure,
            "figures": {split: figures[self.task.measure] for split, figures in measured.items()},
            "details": measured,
            "words": {split: sum(len(s.words) for s in text.sentences) for split, text in self.texts.items()},
            "seconds": round(self.progress.seconds, 3),
            "labelling_seconds": round(time.monotonic() - started, 3),
            "device": str(self.device),
        }

    def open_model(self, option: str, folder: str) -> tuple[Trained, Vocabulary]:
        """Load a language model, with its vocabulary, whose lines have no labels."""
        run, model, vocabulary = open_source_run(folder, option)
        if vocabulary.conditions:
            raise UserError(f"{option}: {folder} has corpus.condition=true", "choose a run without corpus.condition")
        return Trained(folder, run.config()["model"], model), vocabulary

    def open_labeller(self, option: str, folder: str) -> TrainedLabeller:
        """Load a labeller if its task options agree and all its plug-ins are loaded."""
        with error_prefix(option, "choose another run"):
            trained = load_labeller(Path(folder))
        for name, value in self.options.task.items():
            if name not in ("train", "valid", "test") and trained.task.get(name) != value:
                there, here = format_value(trained.task.get(name)), format_value(value)
                raise UserError(f"{option}: {folder} has task.{name}={there}, and here it is {here}",
                                "repeat its options of task, or choose another run")  # fmt: skip
        if missing := [name for name in trained.plugins if name not in self.options.plugins]:
            raise UserError(f"{option}: {folder} needs plugins", f"add {', '.join(missing)} to plugins")
        if warning := Run(Path(folder)).unfinished():
            log.warning("%s", warning)
        return trained
