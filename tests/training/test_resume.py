"""A run that was stopped or killed goes on as if nothing had happened: the same bits in the end."""

import errno
import os
import runpy
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import MODELS, QUICK, ROOT, TEXT, stop_at
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from lmzoo.core.configs import CONFIGS
from lmzoo.core.errors import Interrupted, UserError
from lmzoo.core.files import write_atomic
from lmzoo.core.registry import models
from lmzoo.models.ngram.ngram import NGram
from lmzoo.runs import directory
from lmzoo.runs.directory import Run
from lmzoo.training.session import train
from lmzoo.training.signals import stop_signals
from lmzoo.training.trainer import Trainer

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "kill_resume.py"))
SCHEDULES = {
    "cosine": ["schedule=cosine", "schedule.warmup=3"],
    "plateau": ["schedule=plateau", "optimizer=sgd", "optimizer.momentum=0.5", "trainer.checks_per_epoch=2"],
}


def configuration(*overrides: str) -> dict[str, Any]:
    quick = [*TEXT, *QUICK, "trainer.epochs=3", "trainer.bptt=25", "trainer.max_tokens=120"]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = compose("train", [*quick, *overrides, "run_dir=unset"])
    return OmegaConf.to_container(config, resolve=True)  # pyright: ignore[reportReturnType]


def state_of(run: Path) -> dict[str, Any]:
    """What two runs must agree in."""
    saved = {name: torch.load(run / name, weights_only=True) for name in ("last.pt", "best.pt")}
    return {"results": Run(run).results(), **{k: v | {"config": None} for k, v in saved.items()}}


def assert_same(run: Path, other: Path) -> None:
    differing = SCRIPT["differences"](state_of(run), state_of(other), "")
    assert not [name for name in differing if not name.endswith("tokens_per_second")], differing


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("context", ["stream", "sentence"])
@pytest.mark.parametrize("model", ["lstm", "vlhmm"])
def test_a_stopped_run_goes_on_exactly(model: str, context: str, schedule: str, tmp_path: Path):
    config = configuration(*MODELS[model], *SCHEDULES[schedule], f"corpus.context={context}")
    train(config | {"run_dir": str(tmp_path / "peace")})
    stopped = config | {"run_dir": str(tmp_path / "stopped")}
    for step, number in ((3, signal.SIGTERM), (6, signal.SIGINT), (11, signal.SIGTERM)):
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, step, number)
            with pytest.raises(Interrupted):
                train(stopped)
        assert torch.load(tmp_path / "stopped" / "last.pt", weights_only=True)["progress"]["step"] == step
    train(stopped)
    assert_same(tmp_path / "peace", tmp_path / "stopped")


def test_a_run_at_work_is_left_alone_by_a_second_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = configuration("corpus.words=149", "corpus.train=3000", "model=lstm") | {"run_dir": str(tmp_path / "run")}
    take, errors = Trainer._step, []

    def step(self: Trainer, *arguments: Any) -> dict[str, float]:
        if self.progress.step == 3:
            with pytest.raises(UserError, match="another process is training here") as raised:
                train(config)
            errors.append(raised.value)
        return take(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", step)
        train(config)
    assert len(errors) == 1
    assert (tmp_path / "run" / "results.json").exists()


def test_where_folders_cannot_be_locked_training_goes_on_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def flock(*_: int) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))  # as on NFS

    monkeypatch.setattr(directory.fcntl, "flock", flock)
    train(configuration("corpus.words=149", "corpus.train=3000", "model=ngram") | {"run_dir": str(tmp_path / "run")})
    assert (tmp_path / "run" / "results.json").exists()


@pytest.mark.parametrize("model", sorted(set(models.entries) - {"arpa", "mixture"}))  # they read what others wrote
def test_every_model_goes_on_exactly_from_where_it_was(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Compared with the run that it was a part of: two runs' estimates may differ in LAPACK's last bits."""
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"

    def step(self: Trainer, *arguments: Any) -> dict[str, float]:
        if self.progress.step == 5:
            self.save()
            shutil.copytree(whole, resumed)
        return take(self, *arguments)

    take = Trainer._step
    config = configuration("corpus.words=149", "corpus.train=3000", *MODELS.get(model, [f"model={model}"]))
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_step", step)
        train(config | {"run_dir": str(whole)})
    if not resumed.exists():  # no gradient: a run can be killed only while it is measured
        shutil.copytree(whole, resumed)
        (resumed / "results.json").unlink()
    train(config | {"run_dir": str(resumed)})
    assert_same(whole, resumed)


class Killed(BaseException):
    """Nothing that runs after it may matter."""


def kill_at(patch: pytest.MonkeyPatch, number: int, after: bool) -> None:
    """Die in the middle of the ``number``-th file that is saved, or just after it."""
    saved = 0

    def write(path: Path, data: bytes) -> None:
        nonlocal saved
        saved += 1
        if saved == number and not after:
            path.with_name(f".{path.name}.0.part").write_bytes(data[: len(data) // 2])
            raise Killed
        write_atomic(path, data)
        if saved == number:
            raise Killed

    patch.setattr(directory, "write_atomic", write)


@pytest.mark.parametrize("after", [False, True])
def test_a_run_killed_at_any_file_goes_on_exactly(after: bool, tmp_path: Path):
    config = configuration(*MODELS["lstm"], *SCHEDULES["cosine"])
    train(config | {"run_dir": str(tmp_path / "peace")})
    number = 1
    while True:
        run = tmp_path / f"killed at {number}"
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, number, after)
            try:
                train(config | {"run_dir": str(run)})
                break
            except Killed:
                pass
        train(config | {"run_dir": str(run)})
        assert_same(tmp_path / "peace", run)
        assert not list(run.glob(".*"))
        number += 1
    assert number > 8  # vocabulary, provenance, configuration, the start, two an epoch, results


def test_a_checkpoint_holds_the_state_and_not_the_text_it_is_a_view_of(tmp_path: Path):
    config = configuration(*MODELS["lstm"], "corpus.train=200000", "trainer.batch_size=200", "trainer.bptt=1000")
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 1)
        with pytest.raises(Interrupted):
            train(config | {"run_dir": str(tmp_path / "run")})
    assert (tmp_path / "run" / "last.pt").stat().st_size < 200_000 * 8


def test_estimation_ends_at_once_and_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = configuration("model=ngram") | {"run_dir": str(tmp_path / "run")}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background jobs lack
    try:
        with monkeypatch.context() as patch:
            patch.setattr(NGram, "estimate", lambda *_: signal.raise_signal(signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                train(config)
    finally:
        signal.signal(signal.SIGINT, before)
    changed = configuration("model=ngram", "model.order=2")  # nothing stands in the way of another choice
    assert train(changed | {"run_dir": config["run_dir"]})["perplexity"]["test"] < 20


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_is_not_held_back(number: int):
    def handler(*_: Any) -> None:
        raise InterruptedError

    before = signal.signal(number, handler)
    try:
        with stop_signals() as stopped:
            assert not stopped()
            os.kill(os.getpid(), number)
            assert stopped()
            with pytest.raises(InterruptedError):
                os.kill(os.getpid(), number)
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


def test_a_run_killed_twice_ends_with_the_same_bits(tmp_path: Path, capfd: pytest.CaptureFixture):
    options = ["corpus=markov", "corpus.train=20000", "trainer.epochs=8", *MODELS["lstm"], "device=cpu"]
    assert SCRIPT["kill_and_resume"](options, 2, tmp_path) == []
    assert capfd.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lstm", "vlhmm"])
def test_a_run_killed_ten_times_ends_with_the_same_bits(model: str, tmp_path: Path):
    assert SCRIPT["kill_and_resume"](SCRIPT["TEXT"] + SCRIPT["MODELS"][model], 10, tmp_path) == []
