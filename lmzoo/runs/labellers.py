"""Labellers of trained runs."""

from pathlib import Path

import lmzoo.labels  # noqa: F401 - its import registers them
from lmzoo.labels.formats import Layout
from lmzoo.labels.model import Labeller, TrainedLabeller, labellers
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import LABELS


def load_labeller(folder: Path) -> TrainedLabeller:
    """The labeller of a run with its best weights; raise a UserError if it is another kind of run or has no weights."""
    run = Run(folder)
    config = run.config()
    config.kind.require(folder, LABELS)
    checkpoint = run.best("state", "form")
    labeller: Labeller = labellers.build(config["labeller"])
    with run.reading("best.pt"):
        labeller.load_state_dict(checkpoint["state"])
        layout = Layout(**checkpoint["form"])
    return TrainedLabeller(str(folder), labeller, config["labeller"], config["task"], config["plugins"], layout)
