"""Labellers of trained runs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import lmzoo.labels  # noqa: F401 - its import registers them
from lmzoo.core.errors import UserError, out_of_memory, own_place
from lmzoo.core.options import call
from lmzoo.core.plugins import require_plugins
from lmzoo.labels.formats import Form
from lmzoo.labels.model import Labeller, Learnt, State, labellers
from lmzoo.runs.checkpoint import require_numbers
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import LABELS, kind_of

SINCE = {"small", "dense", "features", "scales"}
"""What checkpoints of earlier versions do not have."""


def taken(
    run: Run, name: str, what: Any, take: Callable[[Mapping[str, Tensor]], None], told: Callable[[], State]
) -> None:
    """Let a labeller take over what a checkpoint of the run holds: it must then tell the same as what it has.

    Args:
        take, told: `Labeller.take` and `Labeller.state`, or `Labeller.go_on` and `Labeller.progress`.

    Raises: UserError where that is not of this labeller. An error of ``take`` may be one of its code, so it is told
        with its line.
    """
    try:
        with run.reading(name):
            if not isinstance(what, Mapping) or not all(isinstance(part, Tensor) for part in what.values()):
                raise UserError("holds nothing of this labeller")
            require_numbers(what)
            take(what)
            own = told()
            if lacking := own.keys() - what.keys() - SINCE:
                raise UserError(f"has no {min(lacking)}")
            if wrong := [key for key in what if key in own and not _same(what[key], own[key])]:
                raise UserError(f"{wrong[0]} is not what this labeller saves")
    except UserError:
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        raise UserError(
            f"{run.path / name}: holds nothing of this labeller, or its code is wrong: {own_place(error)}",
            "train it again if the file was changed, else mend that line",
        ) from error


def _same(value: Tensor, own: Tensor) -> bool:
    return value.dtype == own.dtype and torch.equal(value, own.cpu()) and not (value == torch.inf).any()


def load_labeller(folder: Path) -> Learnt:
    """The labeller of a run, with its best weights.

    Raises: UserError where the folder is no run of labels, or holds no weights yet.
    """
    run = Run(folder)
    config = run.config()
    kind_of(config).require(folder, LABELS)
    require_plugins(config["plugins"], run.path)
    labeller: Labeller = labellers.build(config["labeller"])
    checkpoint = run.restore("best.pt", torch.device("cpu"), "state")
    if checkpoint is None:
        raise UserError(f"{folder}: has no best.pt yet", "train it first")
    taken(run, "best.pt", checkpoint["state"], labeller.take, labeller.state)
    form = None
    if "form" in checkpoint:  # runs of before do not tell it
        with run.reading("best.pt"):
            if not isinstance(checkpoint["form"], dict):
                raise UserError("does not say what text it was learnt from")
            form = call(Form, checkpoint["form"], "form.")
    return Learnt(str(folder), labeller, config["labeller"], config["task"], config["plugins"], form)
