"""One process at a time in a run directory: what it finds under the lock is what it goes on from."""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import MODELS, QUICK, SMALL, TEXT, configuration, contents, stop_at, train

from lmzoo.core.errors import Interrupted, UserError
from lmzoo.runs.directory import Run
from lmzoo.runs.files import locked
from lmzoo.training.language_models import Learning
from lmzoo.training.trainer import Trainer


def train_until(step: int, config: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, step)
        with pytest.raises(Interrupted):
            train(config)


def before_step(patch: pytest.MonkeyPatch, number: int, action: Callable[[], Any]) -> None:
    """Let something happen before the ``number``-th step of a run."""
    take = Trainer._step

    def step(self: Trainer, *arguments: Any) -> dict[str, float]:
        if self.progress.step + 1 == number:
            action()
        return take(self, *arguments)

    patch.setattr(Trainer, "_step", step)


def before_lock(patch: pytest.MonkeyPatch, action: Callable[[], Any]) -> None:
    """Let something happen when the next process has prepared itself, just before it asks for the lock."""
    plain = fcntl.flock

    def flock(*arguments: Any) -> None:
        patch.setattr(fcntl, "flock", plain)
        action()
        plain(*arguments)

    patch.setattr(fcntl, "flock", flock)


def test_a_run_at_work_is_left_alone_by_a_second_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config, errors = configuration(tmp_path / "run", *SMALL), []

    def second() -> None:
        before = contents(tmp_path / "run")
        with pytest.raises(UserError, match="another process is training here") as raised:
            train(config)
        errors.append(raised.value)
        assert contents(tmp_path / "run") == before

    before_step(monkeypatch, 4, second)
    train(config)
    assert len(errors) == 1
    assert (tmp_path / "run" / "results.json").exists()


def test_where_folders_cannot_be_locked_training_goes_on_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def flock(*_: int) -> None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))  # as on NFS

    monkeypatch.setattr(fcntl, "flock", flock)
    train(configuration(tmp_path / "run", *TEXT, *QUICK, *MODELS["ngram"]))
    assert (tmp_path / "run" / "results.json").exists()


def test_training_goes_on_from_the_checkpoint_that_is_there_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    config = configuration(tmp_path / "run", *SMALL)
    train_until(3, config)
    shutil.copytree(tmp_path / "run", tmp_path / "ahead")
    train_until(8, config | {"run_dir": str(tmp_path / "ahead")})
    whole = train(config | {"run_dir": str(tmp_path / "whole")})
    steps, take = [], Trainer._step

    def step(self: Trainer, *arguments: Any) -> dict[str, float]:
        steps.append(self.progress.step + 1)
        return take(self, *arguments)

    monkeypatch.setattr(Trainer, "_step", step)
    before_lock(monkeypatch, lambda: shutil.copytree(tmp_path / "ahead", tmp_path / "run", dirs_exist_ok=True))
    results = train(config)
    assert steps[0] == 9
    assert results["perplexity"] == whole["perplexity"]
    ended, expected = (torch.load(tmp_path / name / "last.pt", weights_only=True) for name in ("run", "whole"))
    assert all(map(torch.equal, ended["model"].values(), expected["model"].values()))


def test_a_run_that_another_process_has_finished_under_the_lock_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    config = configuration(tmp_path / "run", *SMALL)
    train_until(3, config)
    before_lock(monkeypatch, lambda: train(config))
    train(config)
    assert "already finished" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "run" / "provenance.json").read_text())) == 2


@pytest.mark.parametrize("moment", ["while the winner is at work", "after the winner has finished"])
def test_of_two_configurations_for_a_new_folder_one_wins(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Both find the folder empty; the loser is refused and changes nothing."""
    folder = tmp_path / "run"
    winner, loser = configuration(folder, *SMALL), configuration(folder, *SMALL, "seed=1")
    prepare, left = Learning.prepare, {}

    def slowly(*arguments: Any) -> dict[str, Any]:
        monkeypatch.setattr(Learning, "prepare", prepare)
        assert not folder.exists()
        if moment == "after the winner has finished":
            train(winner)
        else:
            train_until(4, winner)
        left.update(contents(folder))
        return prepare(*arguments)

    monkeypatch.setattr(Learning, "prepare", slowly)
    with pytest.raises(UserError, match=r"contains a run with another configuration \(seed: 0 -> 1\)"):
        train(loser)
    assert contents(folder) == left
    assert Run(folder).config()["seed"] == 0


def test_a_folder_made_anew_since_it_was_opened_is_another_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "run"
    folder.mkdir()
    before_lock(monkeypatch, lambda: (folder.rename(tmp_path / "before"), folder.mkdir()))
    with pytest.raises(UserError, match="another process is training here"), locked(folder):
        pass
