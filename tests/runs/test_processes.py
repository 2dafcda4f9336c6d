"""Processes at work at the same time: on the same run, on the same sweep, beside an evaluation, on an empty cache."""

import json
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import MODELS, QUICK, SMALL, TEXT, Outcome, command

from lmzoo.commands import evaluate
from lmzoo.training.trainer import Trainer
from lmzoo.words import brown

FLOAT32 = "trainer.precision=float32"
"""Other processes do not know that tests have bfloat16 nowhere."""
SWEEP = ["-m", "model=rnn,lstm", *TEXT, *QUICK, "model.embedding=8", "model.hidden=8", FLOAT32]


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    """Two processes, started from one that has loaded PyTorch already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lmzoo.commands.train"])
    with ProcessPoolExecutor(2, context) as pool:
        yield pool


def wait(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.002)


def meet(gate: Path) -> None:
    """Wait until two processes are here."""
    gate.mkdir(exist_ok=True)
    (gate / str(os.getpid())).touch()
    wait(lambda: len(list(gate.iterdir())) == 2)


def before_each_step(patch: pytest.MonkeyPatch, action: Callable[[Trainer], Any]) -> None:
    take = Trainer._step

    def step(self: Trainer, *arguments: Any) -> dict[str, float]:
        action(self)
        return take(self, *arguments)

    patch.setattr(Trainer, "_step", step)


def train_beside_another(folder: Path, *arguments: str) -> Outcome:
    """The one that gets the folder does not take its fourth step before the other one has ended."""
    torch.set_num_threads(1)
    over = folder / "over"
    with pytest.MonkeyPatch.context() as patch:
        before_each_step(patch, lambda trainer: trainer.progress.step == 3 and wait(over.exists))
        meet(folder / "gate")
        outcome = command(*arguments)
    over.touch()
    return outcome


def test_of_two_trainings_at_once_one_is_refused_in_a_line(
    processes: ProcessPoolExecutor, tmp_path: Path, finished: Path
):
    arguments = [*SMALL, FLOAT32, f"run_dir={tmp_path / 'run'}"]
    calls = [processes.submit(train_beside_another, tmp_path, *arguments) for _ in range(2)]
    winner, loser = sorted((call.result() for call in calls), key=lambda outcome: outcome.code)
    assert (winner.code, winner.err) == (0, "")
    assert "another process is training here; choose another run_dir" in loser.refused()
    results, alone = (json.loads((run / "results.json").read_text()) for run in (tmp_path / "run", finished))
    assert results["perplexity"] == alone["perplexity"]
    assert len(json.loads((tmp_path / "run" / "provenance.json").read_text())) == 1


def sweep_beside_another(folder: Path, *arguments: str) -> Outcome:
    torch.set_num_threads(1)
    meet(folder / "gate")
    return command(*arguments)


def test_two_sweeps_at_once_do_each_run_once(processes: ProcessPoolExecutor, tmp_path: Path):
    alone, both = tmp_path / "alone", tmp_path / "both"
    assert command(*SWEEP, f"run_dir={alone}/${{model.name}}").code == 0
    calls = [
        processes.submit(sweep_beside_another, tmp_path, *SWEEP, f"run_dir={both}/${{model.name}}") for _ in range(2)
    ]
    for outcome in (call.result() for call in calls):
        failures = [line for line in outcome.err.splitlines() if line.startswith("failed: ")]
        assert all("another process is training here" in line for line in failures)
        assert outcome.code == (1 if failures else 0)
        assert "Traceback" not in outcome.err
    for name in ("rnn", "lstm"):
        results, expected = (json.loads((runs / name / "results.json").read_text()) for runs in (both, alone))
        assert results["perplexity"] == expected["perplexity"]
        assert len(json.loads((both / name / "provenance.json").read_text())) == 1
        assert "failed" not in (both / name / "train.log").read_text()


def train_slowly(*arguments: str) -> Outcome:
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        before_each_step(patch, lambda _: time.sleep(0.1))
        return command(*arguments)


def test_an_evaluation_during_training_has_the_weights_of_a_check(processes: ProcessPoolExecutor, tmp_path: Path):
    run = tmp_path / "run"
    options = [*SMALL, "trainer.checks_per_epoch=5", "trainer.checkpoint_seconds=0", f"run_dir={run}"]
    training = processes.submit(train_slowly, *options)
    wait((run / "best.pt").exists)
    measured = []
    while not training.done():
        outcome = command(str(run), "valid", "--device", "cpu", main=evaluate.main)
        assert outcome.code == 0, outcome
        measured += re.findall(r"perplexity ([\d.]+) over", outcome.out)
    assert training.result().code == 0
    assert len(set(measured)) > 1
    assert set(measured) <= set(re.findall(r"valid perplexity ([\d.]+)", (run / "train.log").read_text()))


def train_with_an_empty_cache(folder: Path, *arguments: str) -> Outcome:
    """Nobody computes clusters before both have seen that there are none."""
    torch.set_num_threads(1)
    compute = brown.brown_clusters

    def together(*given: Any) -> torch.Tensor:
        meet(folder / "gate")
        return compute(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LMZOO_CACHE", str(folder / "cache"))
        patch.setattr(brown, "brown_clusters", together)
        return command(*arguments)


def test_two_first_users_of_the_cache(processes: ProcessPoolExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    runs = [tmp_path / name for name in ("first", "second")]
    options = [*TEXT, *QUICK, *MODELS["vlhmm"]]
    calls = [processes.submit(train_with_an_empty_cache, tmp_path, *options, f"run_dir={run}") for run in runs]
    assert [(call.result().code, call.result().err) for call in calls] == [(0, "")] * 2
    first, second = (json.loads((run / "results.json").read_text())["perplexity"] for run in runs)
    assert first == second
    assert len(list((tmp_path / "cache").iterdir())) == 1
    monkeypatch.setenv("LMZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(brown, "brown_clusters", lambda *_: pytest.fail("computed again"))
    assert command(*options, f"run_dir={tmp_path / 'third'}").code == 0
