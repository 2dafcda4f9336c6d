"""A run that starts from a smaller one, by the command; that no state says anything new is in test_block_hmm.py."""

import re
from pathlib import Path

import pytest
from command_line import QUICK, TEXT, command

from lmzoo.perplexity import score
from lmzoo.run import Run, load

SIZES = ["model.states=12", "model.clusters=6", "model.dim=8"]


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "parent"
    assert command(*TEXT, *QUICK, "model=twolevel_hmm", *SIZES, f"run_dir={folder}").code == 0
    return folder


def split(parent: Path, folder: Path, *options: str):
    return command(*TEXT, *QUICK, "model=twolevel_hmm", *SIZES, f"model.parent={parent}", f"run_dir={folder}", *options)


def test_a_run_starts_where_its_parent_ended(parent: Path, tmp_path: Path):
    child = tmp_path / "child"
    outcome = split(parent, child, "model.states=24", "optimizer.lr=1e-9")
    assert outcome.code == 0, outcome
    model, _ = load(child)
    assert model.states == 24
    whole, (before, _) = Run(child).corpus(), load(parent)
    figures = [score(each, whole.splits["valid"], whole.context).perplexity for each in (before, model)]
    assert figures[1] == pytest.approx(figures[0], rel=0.01)
    assert figures[1] != figures[0]


def test_a_trained_run_needs_its_parent_no_more(parent: Path, tmp_path: Path):
    moved, child = tmp_path / "moved", tmp_path / "child"
    parent.rename(moved)
    try:
        assert split(moved, child).code == 0
    finally:
        moved.rename(parent)
    load(child)
    assert "already finished" in split(moved, child).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["model.states=30"], "12 states in 6 clusters cannot be split into 30 in 6; set model.states to a multiple"),
        (["model.clusters=4"], "12 states in 6 clusters cannot be split into 12 in 4; .* model.clusters to the same"),
        (["model=vlhmm"], "is another model than this; choose a run of the same"),
        (
            ["model.dim=9"],
            r"differs in more than the numbers of states and features \(.*word.weight\); repeat the other options",
        ),
        (
            ["model.tied=true"],
            r"differs in more than the numbers of states and features \(destination.weight\); repeat the other",
        ),
        (["corpus.train=410"], "was trained on another text"),
        (["model.parent=nowhere"], "nowhere: not a run directory"),
        (["model=vlhmm", "model.parameterisation=table"], "a table has no state vectors to split; set it to null"),
    ],
)
def test_parents_that_cannot_be(parent: Path, tmp_path: Path, options: list[str], message: str):
    line = split(parent, tmp_path / "child", *options).refused()
    assert re.search(f"model.parent(=|: ).*{message}", line)
    assert not list(tmp_path.iterdir())
