"""A run in stages: each is a run by itself, from which the next one starts."""

import json
from pathlib import Path

import pytest
from command_line import MODELS, QUICK, TEXT, command, stop_at

from lmzoo import api

pytestmark = pytest.mark.usefixtures("folder")

SMALL = [*TEXT, *QUICK, *MODELS["vlhmm"], "corpus.context=sentence"]
GROWN = ["model.states=48", "model.parent=previous", "stages=[{model:{states:24},trainer:{epochs:1}}]"]


def figures(folder: str | Path) -> dict[str, float]:
    return json.loads(Path(folder, "results.json").read_text())["perplexity"]


def test_stages_are_the_runs_that_one_would_do_by_hand():
    assert command(*SMALL, *GROWN, "run_dir=grown").code == 0
    assert command(*SMALL, "trainer.epochs=1", "run_dir=small").code == 0
    assert command(*SMALL, "model.states=48", "model.parent=small", "run_dir=large").code == 0
    assert figures("grown-stage-1") == figures("small")
    assert figures("grown") == figures("large") != figures("small")


def test_without_a_folder_stages_have_those_of_runs_by_themselves():
    assert command(*SMALL, "trainer.epochs=1").code == 0
    outcome = command(*SMALL, *GROWN)
    assert outcome.code == 0, outcome
    assert "already finished: outputs/markov/vlhmm" in outcome.out
    assert len(list(Path("outputs/markov").glob("*/results.json"))) == 2


@pytest.mark.parametrize("stopped", [2, 7])
def test_the_same_command_goes_on_between_stages_and_within_one(stopped: int, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        stop_at(patch, stopped)
        assert command(*SMALL, *GROWN, "run_dir=stopped").code == 130
    outcome = command(*SMALL, *GROWN, "run_dir=stopped")
    assert outcome.code == 0, outcome
    assert command(*SMALL, *GROWN, "run_dir=whole").code == 0
    assert figures("stopped") == figures("whole")


def test_a_stage_may_go_on_with_the_weights_of_the_one_before():
    options = [*TEXT, *QUICK, *MODELS["gru"], "trainer.from=previous", "stages=[{optimizer:{lr:0.01}},{seed:1}]"]
    assert command(*options, "run_dir=last").code == 0
    sources = [Path(f"last{end}/config.yaml").read_text() for end in ("-stage-1", "-stage-2", "")]
    assert [
        f"from: {name}\n" in text for name, text in zip(("null", "last-stage-1", "last-stage-2"), sources, strict=True)
    ]
    assert "lr: 0.01" in sources[0]
    assert "seed: 1" in sources[1]
    assert not any("stages" in text for text in sources)


def test_python_gets_the_last_stage():
    assert api.train(*SMALL, *GROWN).model.states == 48


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ("3", "error: stages: must be a list of groups; write it as stages=[{model:{states:1024}}]"),
        ("[3]", "error: stages: must be a list of groups; write it as stages=[{model:{states:1024}}]"),
        ("[{model:{statez:3}}]", "error: stages: Could not override 'model.statez'."),
        ("[{model:{states:24}},{trainer:{epochs:-1}}]", "error: trainer.epochs=-1: must be at least 1"),
    ],
)
def test_a_bad_stage_is_refused(stages: str, message: str):
    assert command(*SMALL, f"stages={stages}").refused().startswith(message)


def test_a_stage_that_fails_ends_the_job_of_a_sweep():
    outcome = command("-m", *SMALL, "seed=0,1", "model.parent=previous", "stages=[{model:{states:25}}]")
    assert outcome.code == 1
    assert outcome.err.count("failed: model.states=25") == 2
    assert not list(Path().rglob("results.json"))


def test_a_folder_may_have_any_letters():
    assert command(*SMALL, *GROWN, 'run_dir="données"').code == 0
    assert {path.name for path in Path().glob("donn*")} == {"données", "données-stage-1"}


def test_python_says_which_run_a_beginning_stands_for(caplog: pytest.LogCaptureFixture):
    assert command(*SMALL, "run_dir=outputs/small").code == 0
    api.load("outputs/sma")
    assert "outputs/sma is outputs/small" in caplog.text
