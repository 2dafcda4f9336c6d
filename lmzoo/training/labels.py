"""A run of a model of labels from its configuration to its results; as `lmzoo.training.session` for language models."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmzoo.labels  # noqa: F401 - its import registers the models
from lmzoo.core.options import Seed, call
from lmzoo.core.plugins import load_plugins
from lmzoo.labels.formats import Text
from lmzoo.labels.metrics import accuracy, entity_f1, unknown_accuracy
from lmzoo.labels.model import Labeller, labellers
from lmzoo.labels.tasks import Measure, load_task
from lmzoo.runs.directory import Run
from lmzoo.runs.log import logging_to
from lmzoo.runs.results import summary

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What ``configs/label.yaml`` sets; see the comments there."""

    seed: Seed
    run_dir: str
    plugins: list[str]
    task: dict
    labeller: dict


def learn(config: Mapping[str, Any], told: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Do the run that a resolved configuration describes. A finished run is only reported.

    Returns: the contents of ``results.json``.

    Raises: UserError for a mistake in the configuration or its surroundings.
    """
    settings: Settings = call(Settings, config, "")
    run = Run(Path(settings.run_dir))
    run.check(config)
    load_plugins(settings.plugins)
    labeller: Labeller = labellers.build(settings.labeller)
    task = load_task(settings.task)
    with run.alone():
        run.check(config)
        run.check_text(task.corpus)
        if results := run.results():
            print(f"already finished: {run.path}\n{summary(results)}")
            return results
        run.begin(config, task.corpus)
        with logging_to(run.path / "train.log"):
            log.info("%s on %s: %s", settings.labeller["name"], task.corpus.name, run.path)
            started = time.monotonic()
            train = task.texts["train"].sentences
            labeller.fit(train, settings.seed)
            learnt = time.monotonic()
            known = {word for sentence in train for word in sentence.words}
            measured = {}
            for split in task.texts.keys() - {"train"}:
                measured[split], written = _measured(labeller, task.texts[split], task.measure, known)
                run.write(f"{split}.labels", written)
            results = {
                "labeller": settings.labeller["name"],
                "task": task.corpus.name,
                "measure": task.measure,
                "figures": {split: measured[split][task.measure] for split in ("valid", "test") if split in measured},
                "details": measured,
                "words": {split: sum(len(s.words) for s in text.sentences) for split, text in task.texts.items()},
                "seconds": round(learnt - started, 3),
                "labelling_seconds": round(time.monotonic() - learnt, 3),
                "seed": settings.seed,
            }
            run.write_json("results.json", results)
    print(summary(results))
    return results


def _measured(labeller: Labeller, text: Text, measure: Measure, known: set[str]) -> tuple[dict[str, Any], bytes]:
    """The figures of a text, and the text with the labels that the model gives."""
    predicted = [labeller.label(sentence) for sentence in text.sentences]
    figures: dict[str, Any] = {
        "accuracy": accuracy(text.sentences, predicted),
        "unknown_accuracy": unknown_accuracy(text.sentences, predicted, known),
    }
    if measure == "f1":
        figures |= entity_f1(text.sentences, predicted)
    return figures, text.written(predicted)
