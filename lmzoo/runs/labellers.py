"""Labellers of trained runs."""

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

import lmzoo.labels  # noqa: F401 - its import registers them
from lmzoo.core.errors import UserError
from lmzoo.core.options import call
from lmzoo.core.plugins import require_plugins
from lmzoo.labels.formats import Layout
from lmzoo.labels.model import Labeller, TrainedLabeller, labellers
from lmzoo.runs.checkpoint import require_numbers
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import LABELS


def restore(run: Run, name: str, tensors: Mapping[str, Tensor], load: Callable[[Mapping[str, Tensor]], None]) -> None:
    """Load a checkpoint into a labeller with its ``load_state_dict`` or ``resume``; see `Run.reading`."""
    with run.reading(name):
        require_numbers(tensors)
        load(tensors)


def load_labeller(folder: Path) -> TrainedLabeller:
    """The labeller of a run with its best weights; raise a UserError if it is another kind of run or has no weights."""
    run = Run(folder)
    config = run.config()
    config.kind.require(folder, LABELS)
    require_plugins(config["plugins"], run.path)
    labeller: Labeller = labellers.build(config["labeller"])
    checkpoint = run.restore("best.pt", "state", "form")
    if checkpoint is None:
        raise UserError(f"{folder}: has no best.pt yet", "train it first")
    restore(run, "best.pt", checkpoint["state"], labeller.load_state_dict)
    with run.reading("best.pt"):
        layout = call(Layout, checkpoint["form"], "form.")
    return TrainedLabeller(str(folder), labeller, config["labeller"], config["task"], config["plugins"], layout)
