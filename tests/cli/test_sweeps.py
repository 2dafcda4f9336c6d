"""Sweeps: a failing job is reported, logged in its own folder, stops nothing, and alone is tried again."""

import csv
import json
import multiprocessing
import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from command_line import MODELS, QUICK, TEXT, command, stop_at
from hydra._internal.core_plugins import basic_launcher

from lmzoo.cli.hydra import _forced
from lmzoo.commands import compare
from lmzoo.models.neural.recurrent import RNN
from lmzoo.runs.directory import Run
from lmzoo.training.trainer import Trainer

SWEEP = ["-m", "model=rnn,lstm", *TEXT, *QUICK, "model.embedding=8", "model.hidden=8"]


pytestmark = pytest.mark.usefixtures("folder")


def runs() -> dict[str, Path]:
    """The folders of the sweep's runs by the names of their models."""
    return {path.name.split("-")[0]: path for path in Path("outputs/markov").iterdir() if path.is_dir()}


def table() -> list[dict[str, str]]:
    """The runs as ``lmzoo compare`` writes them."""
    assert command("outputs/markov", "--seeds", "--csv", "table.csv", main=compare.main).code == 0
    return list(csv.DictReader(Path("table.csv").read_text().splitlines()))


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

    outcome = command(*SWEEP[1:3], "-m", *SWEEP[3:])  # which may stand anywhere
    assert (outcome.code, outcome.err) == (0, "")
    assert f"already finished: {done}" in outcome.out
    assert f"already finished: {failed}" not in outcome.out
    assert json.loads((failed / "results.json").read_text())["model"] == "rnn"
    assert (done / "last.pt").stat().st_mtime_ns == before

    monkeypatch.setattr(Trainer, "_step", boom)
    outcome = command(*SWEEP)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.count("already finished") == 2
    assert "markov, context stream, 21 words" in outcome.out
    rows = [line.split() for line in outcome.out.splitlines()[-4:-2]]
    assert {row[-1] for row in rows} == {str(done), str(failed)}
    assert not list(Path().glob(".sweep*"))
    listed = table()
    for row, line in zip(rows, listed, strict=True):
        assert row[-1] == line["run"]
        perplexity = json.loads((Path(row[-1]) / "results.json").read_text())["perplexity"]
        assert row[2:4] == [f"{perplexity['valid']:.2f}", f"{perplexity['test']:.2f}"]
        assert (float(line["valid"]), float(line["test"])) == (perplexity["valid"], perplexity["test"])
    assert float(listed[0]["valid"]) <= float(listed[1]["valid"])


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
    sweep = [*SWEEP, "run_dir=outputs/markov/${model.name}"]
    with monkeypatch.context() as patch:
        patch.setattr(RNN, "initial_state", boom)
        command(*sweep)
    settings = runs()["rnn"] / "config.yaml"
    settings.write_text(settings.read_text().replace("seed: 0", "seed: 3", 1))
    outcome = command(*sweep)
    assert outcome.code == 1
    assert "contains a run with another configuration " in outcome.err
    assert "seed: 3 -> 0" in outcome.err
    assert "already finished" in outcome.out


def test_a_signal_stops_the_whole_sweep(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        outcome = command(*SWEEP)
    assert outcome.code == 130
    assert outcome.err == "interrupted: everything is saved; the same command resumes from here\n"
    assert list(runs()) == ["rnn"]
    outcome = command(*SWEEP)
    assert (outcome.code, outcome.err) == (0, "")
    assert "resumed at step 3" in outcome.out
    assert all((run / "results.json").exists() for run in runs().values())
    assert set(runs()) == {"rnn", "lstm"}


def test_a_launcher_may_have_jobs_done_by_other_processes(monkeypatch: pytest.MonkeyPatch):
    """Nothing but what a job writes or returns comes back from there."""
    returned, run_job = multiprocessing.get_context("fork").SimpleQueue(), basic_launcher.run_job

    def elsewhere(*, task_function: Any, **arguments: Any) -> Any:
        def forked(config: Any) -> None:
            child = multiprocessing.get_context("fork").Process(target=lambda: returned.put(task_function(config)))
            with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
                child.start()
            child.join()

        return run_job(task_function=forked, **arguments)

    monkeypatch.setattr(basic_launcher, "run_job", elsewhere)
    monkeypatch.setattr(RNN, "initial_state", boom)
    outcome = command("-m", "model=gru,rnn,lstm", *SWEEP[2:])
    found, listed = runs(), table()
    assert (outcome.code, outcome.err) == (1, f"\n1 failed: {found['rnn']}\n")
    assert {line["run"] for line in listed} == {str(found["gru"]), str(found["lstm"])}
    gru, rnn, lstm = (returned.get() for _ in range(3))
    assert rnn is None
    assert sorted([gru, lstm]) == [float(line["valid"]) for line in listed]


def test_of_the_processes_of_torchrun_the_first_alone_tells_of_a_sweep(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "1")
    later = command(*SWEEP).out
    monkeypatch.setenv("RANK", "0")
    first = command(*SWEEP).out
    assert [out.count("\n[") for out in (later, first)] == [0, 2]
    assert ["best epoch" in out for out in (later, first)] == [False, True]


def test_none_is_a_value_beside_a_sweep_over_models():
    assert command(*SWEEP, "model.embedding_from=null").code == 0
    assert [Run(run).config()["model"]["embedding_from"] for run in runs().values()] == [None, None]


def test_reports_left_by_a_killed_sweep_are_none_of_this_one():
    reports = Path(f".sweep-{os.getpid()}.part")
    reports.mkdir()
    (reports / "5.json").write_text('["old/run", false]')
    outcome = command(*SWEEP)
    assert (outcome.code, outcome.err) == (0, "")


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
        (["model=hmm,vlhmm", "model.states=4", "corpus.train=400"], {"model.states=4": "++model.states=4"}),
        (["model=hmm", "seed=0,1", "model.states=4"], {}),
        (
            ["experiment=vlhmm_ptb,lstm_ptb", "model.runs=['a b',c]", "seed=1", "hydra.verbose=true"],
            {"model.runs=['a b',c]": "++model.runs=['a b',c]"},
        ),
        (["model=hmm,vlhmm", "model.states=4,8"], {}),
    ],
)
def test_what_is_swept_along(arguments, along):
    assert _forced(arguments) == along
