"""A run that was stopped, and the same one that was not."""

import shutil
from pathlib import Path

import pytest
from command_line import SMALL, command, stop_at


@pytest.fixture(scope="session")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was stopped in its second epoch."""
    path = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 7)
        outcome = command(*SMALL, f"run_dir={path}")
    assert outcome.code == 130, outcome
    return path


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run, never stopped."""
    path = tmp_path_factory.mktemp("finished") / "run"
    assert command(*SMALL, f"run_dir={path}").code == 0
    return path


@pytest.fixture
def run(stopped: Path, folder: Path) -> Path:
    """A copy of the stopped run."""
    return shutil.copytree(stopped, folder / "run")
