"""Models that start from smaller ones: their distributions, the options that must agree, and the command."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from block_hmm_oracle import SWITCHES, make, vectors
from command_line import QUICK, TEXT, command
from hmm_oracle import EXACT, words

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.core.options import schema
from lmzoo.models.hmm.block_hmm import BlockHMM
from lmzoo.models.hmm.twolevel_hmm import TwoLevelHMM
from lmzoo.protocol.model import Trained, models
from lmzoo.protocol.perplexity import score
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import load

CHILD_MAY_CHANGE = {"state_dropout", "dropout", "parent", "distilled_from", "distillation_epochs"}
"""Options that decide nothing about the sizes and the meaning of the weights."""


@pytest.mark.parametrize(("name", "options"), SWITCHES, ids=str)
def test_split_states_emit_and_lead_on_as_their_parents(name, options, monkeypatch):
    parent = make(name, **options)
    more = {"features": 2 * parent.options.features} if name.startswith("lowrank_hmm") else {}
    child = make(name, **options | {"states": 48, "parent": "parent"} | more)
    parent.cluster.copy_(parent.cluster.flip(0))
    tokens = words(6, 5)
    expected, _ = parent.eval()(tokens, parent.initial_state(6))
    child.inherit([Trained("parent", {}, parent)])
    logprobs, _ = child.eval()(tokens, child.initial_state(6))
    assert (logprobs - expected).abs().max() > 1e-6
    child.estimate(SimpleNamespace(splits={"train": words(100)}))
    assert child.cluster.equal(parent.cluster)  # with which its weights were learnt
    twins = vectors(child.distributions.origin).view(12, 4, -1)
    assert (twins[:, 0] - twins[:, 1]).norm() < 0.3 * twins[:, 0].norm()
    assert (twins[:, 0] - twins[:, 1]).norm(dim=1).min() > 0
    monkeypatch.setattr("lmzoo.models.hmm.block_hmm.SPLIT_NOISE", 0)
    child.inherit([Trained("parent", {}, parent)])
    logprobs, _ = child.eval()(tokens, child.initial_state(6))
    torch.testing.assert_close(logprobs, expected, **EXACT)


def test_every_option_has_a_rule_for_parents():
    """A new option belongs in `same_as_parent`, in `multiples_of_parent` or in the list above."""
    for model in BlockHMM.__subclasses__():
        rules = [*model.same_as_parent, *model.multiples_of_parent, *CHILD_MAY_CHANGE]
        rules += ["temperature", "teacher", "teacher_weight"] if model is TwoLevelHMM else []  # a child may have others
        assert sorted(rules) == sorted(schema(model).keys() - {"vocabulary_size"})


SIZES = ["model.states=12", "model.clusters=6", "model.dim=8"]


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "parent"
    assert command(*TEXT, *QUICK, "model=twolevel_hmm", *SIZES, f"run_dir={folder}").code == 0
    return folder


def start_from(parent: Path, folder: Path, *options: str):
    return command(*TEXT, *QUICK, "model=twolevel_hmm", *SIZES, f"model.parent={parent}", f"run_dir={folder}", *options)


def test_a_run_starts_where_its_parent_ended(parent: Path, tmp_path: Path):
    child = tmp_path / "child"
    outcome = start_from(parent, child, "model.states=24", "optimizer.lr=1e-9")
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
        assert start_from(moved, child).code == 0
    finally:
        moved.rename(parent)
    load(child)
    assert "already finished" in start_from(moved, child).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["model.states=30"], "its 12 states cannot be split into 30; set model.states to a multiple of 12"),
        (["model.clusters=4"], "has model.clusters=6, not 4; set it to the same"),
        (["model.clustering=uniform"], "has model.clustering=brown, not uniform; set it to the same"),
        (["model.embeddings=factored"], "has model.embeddings=free, not factored; set it to the same"),
        (["model.dim=16"], "has model.dim=8, not 16; set it to the same"),
        (["model.tied=true"], "has model.tied=false, not true; set it to the same"),
        (["model=vlhmm"], "is a run of model=twolevel_hmm; choose a run of the model that is trained"),
        (["corpus.valid=110"], r"parent: was trained on another text .*\); choose another run$"),
        (["model.parent=nowhere"], r"nowhere: not a run directory \(.*\); choose another run$"),
    ],
)
def test_parents_that_are_refused(parent: Path, tmp_path: Path, options: list[str], message: str):
    line = start_from(parent, tmp_path / "child", *options).refused()
    assert re.search(f"model.parent(=|: ).*{message}", line)
    assert not list(tmp_path.iterdir())


def test_a_parent_with_weights_of_another_run(parent: Path, tmp_path: Path):
    other = shutil.copytree(parent, tmp_path / "other")
    config = (other / "config.yaml").read_text()
    (other / "config.yaml").write_text(config.replace("dim: 8", "dim: 4").replace("dropout: 0.0", "dropout: 0.1"))
    line = start_from(other, tmp_path / "child").refused()
    assert line.endswith(
        "a checkpoint of another run (model.dim: 8 -> 4; model.dropout: 0.0 -> 0.1); choose another run"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": 9}, "its 6 features cannot be split into 9; set model.features to a multiple of 6"),
        ({"feature_map": "softmax_kernel"}, "has model.feature_map=exp, not softmax_kernel; set it to the same"),
        ({"block_features": True}, "has model.block_features=false, not true; set it to the same"),
    ],
)
def test_features_that_a_parent_cannot_have(options: dict, message: str):
    usual = defaults("model", "lowrank_hmm")
    sizes = {"states": 6, "clusters": 3, "features": 6, "dim": 4}
    parent, child = (models.build(usual | sizes | more, vocabulary_size=9) for more in ({}, options))
    with pytest.raises(UserError, match=message):
        child.inherit([Trained("parent", {}, parent)])
