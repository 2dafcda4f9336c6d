"""Sweeps: a failing job is told, logged in its own folder, stops nothing, and alone is tried again."""

import json
from pathlib import Path

import pytest
from command_line import MODELS, QUICK, TEXT, command, stop_at

from lmzoo.cli.hydra import _swept_along
from lmzoo.models.neural.recurrent import RNN
from lmzoo.runs.directory import Run
from lmzoo.training.trainer import Trainer

SWEEP = ["-m", "model=rnn,lstm", *TEXT, *QUICK, "model.embedding=8", "model.hidden=8"]


pytestmark = pytest.mark.usefixtures("folder")


def runs() -> dict[str, Path]:
    """The folders of the sweep's runs by the names of their models."""
    return {path.name.split(",")[0]: path for path in Path("outputs/markov").iterdir()}


def boom(*_):
    raise RuntimeError("boom\nand more")


def test_a_failing_job_stops_nothing_and_alone_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(RNN, "initial_state", boom)
        outcome = command(*SWEEP)
    failed, done = runs()["rnn"], runs()["lstm"]
    assert outcome.code == 1
    assert outcome.err == f"failed: boom and more\n\n1 failed: {failed}\n"
    log = (failed / "train.log").read_text()
    assert "failed: Traceback (most recent call last):" in log
    assert "RuntimeError: boom" in log
    assert not (failed / "results.json").exists()
    results = json.loads((done / "results.json").read_text())
    assert f"test perplexity {results['perplexity']['test']:.2f}" in outcome.out
    assert "failed" not in (done / "train.log").read_text()
    before = (done / "last.pt").stat().st_mtime_ns

    outcome = command(*SWEEP)
    assert (outcome.code, outcome.err) == (0, "")
    assert f"already finished: {done}" in outcome.out
    assert f"already finished: {failed}" not in outcome.out
    assert json.loads((failed / "results.json").read_text())["model"] == "rnn"
    assert (done / "last.pt").stat().st_mtime_ns == before

    monkeypatch.setattr(Trainer, "_step", boom)
    outcome = command(*SWEEP)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.count("already finished") == 2
    heading, *rows = [line.split() for line in outcome.out.splitlines()[-3:]]
    assert heading == ["valid", "test", "run"]
    assert {row[2] for row in rows} == {str(done), str(failed)}
    for valid, test, run in rows:
        perplexity = json.loads((Path(run) / "results.json").read_text())["perplexity"]
        assert (valid, test) == (f"{perplexity['valid']:.2f}", f"{perplexity['test']:.2f}")
    assert float(rows[0][0]) <= float(rows[1][0])


def test_a_refused_job_is_logged_in_one_line():
    options = [*TEXT, *QUICK, *MODELS["ngram"], "corpus.train=50"]
    outcome = command("-m", *options, "model.discount_fallback=false,true")
    assert outcome.code == 1
    first, last = outcome.err.split("\n\n")
    assert first.startswith("failed: the training text gives no modified_kneser_ney discounts")
    assert "\n" not in first
    assert last.startswith("1 failed: ")
    folder = Path(last.strip().removeprefix("1 failed: "))
    (line,) = (folder / "train.log").read_text().splitlines()
    assert line.endswith(first)
    assert [path.name for path in folder.iterdir()] == ["train.log"]
    assert len(list(Path("outputs").glob("markov/*/results.json"))) == 1


def test_a_folder_in_the_way_fails_its_own_job_alone(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(RNN, "initial_state", boom)
        command(*SWEEP)
    settings = runs()["rnn"] / "config.yaml"
    settings.write_text(settings.read_text().replace("seed: 0", "seed: 3", 1))
    outcome = command(*SWEEP)
    assert outcome.code == 1
    assert "holds a run with another configuration " in outcome.err
    assert "seed: 3 -> 0" in outcome.err
    assert "already finished" in outcome.out


def test_a_signal_stops_the_whole_sweep(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        outcome = command(*SWEEP)
    assert outcome.code == 130
    assert outcome.err == "interrupted: everything is saved; the same command goes on from here\n"
    assert list(runs()) == ["rnn"]
    outcome = command(*SWEEP)
    assert (outcome.code, outcome.err) == (0, "")
    assert "resumed at step 3" in outcome.out
    assert all((run / "results.json").exists() for run in runs().values())
    assert set(runs()) == {"rnn", "lstm"}


def test_options_that_only_the_models_swept_over_have_are_theirs():
    arguments = ["-m", "model=hmm,neural_hmm", *TEXT, *QUICK, "model.states=4"]
    outcome = command(*arguments)
    assert (outcome.code, outcome.err) == (0, "")
    for name in ("hmm", "neural_hmm"):
        run = Run(runs()[name])
        assert run.config()["model"]["states"] == 4
        assert json.loads((run.path / "provenance.json").read_text())[0]["argv"][1:] == arguments


@pytest.mark.parametrize(
    ("arguments", "along"),
    [
        (["model=hmm,vlhmm", "model.states=4", "corpus.train=400"], {"model.states=4": "model.states=choice(4)"}),
        (["model=hmm", "seed=0,1", "model.states=4"], {}),
        (
            ["experiment=vlhmm_ptb,lstm_ptb", "model.runs=['a b',c]", "seed=1", "hydra.verbose=true"],
            {"model.runs=['a b',c]": "model.runs=choice(['a b',c])"},
        ),
        (["model=hmm,vlhmm", "model.states=4,8"], {}),
    ],
)
def test_what_is_swept_along(arguments, along):
    assert _swept_along(arguments) == along
