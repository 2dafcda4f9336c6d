"""How commands end: exit codes, one line for a mistake, no traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from bad_commands import HYDRA, MAINS, parsed_arguments
from command_line import ROOT, SMALL, command, stop_at

from lmzoo.core.errors import UserError


def mistake() -> int:
    raise UserError("seed=-1: must be at\nleast 0", "choose another")


def ctrl_c() -> int:
    raise KeyboardInterrupt


def test_a_mistake_is_one_line_and_exit_code_2():
    outcome = command(main=mistake)
    assert (outcome.code, outcome.out, outcome.err) == (2, "", "error: seed=-1: must be at least 0; choose another\n")


def test_an_error_that_is_not_the_user_s_keeps_its_traceback():
    def boom() -> int:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        command(main=boom)


def test_ctrl_c_is_exit_code_130():
    outcome = command(main=ctrl_c)
    assert (outcome.code, outcome.out, outcome.err) == (130, "", "interrupted\n")


@pytest.mark.parametrize("code", [0, 1])
def test_the_code_of_a_command_is_its_exit_code(code: int):
    assert command(main=lambda: code).code == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_training_that_a_signal_stopped_is_exit_code_130(number: int, folder: Path, monkeypatch: pytest.MonkeyPatch):
    stop_at(monkeypatch, 3, number)
    outcome = command(*SMALL, "run_dir=run")
    assert outcome.code == 130
    assert outcome.err == "interrupted: everything is saved; the same command resumes from here\n"
    assert (folder / "run" / "last.pt").exists()
    assert not (folder / "run" / "results.json").exists()


def test_the_command_itself_refuses_in_one_line(folder: Path):
    done = subprocess.run(
        [sys.executable, "-m", "lmzoo.train", "-m", "model=lstm,rnn", "++model.hiden=3"],
        capture_output=True, text=True, timeout=600, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: model.hiden: no such option; did you mean 'model.hidden'?\n"
    assert not list(folder.iterdir())


def integers() -> list[tuple[str, str]]:
    """Every command's options that are whole numbers."""
    found = [(name, action) for name, main in MAINS.items() if name not in HYDRA for action in parsed_arguments(main)]
    return [(name, action.option_strings[0]) for name, action in found
            if "int" in str(getattr(action.type, "args", action.type)) and action.option_strings]  # fmt: skip


@pytest.mark.parametrize(("name", "option"), integers())
def test_whole_numbers_have_bounds(name: str, option: str, folder: Path):
    for value in ("9" * 20, "-" + "9" * 20, "9" * 5000, "1.5"):
        needed = [
            action.dest
            for action in parsed_arguments(MAINS[name])
            if not action.option_strings and action.nargs is None
        ]
        line = command(*needed, option, value, main=MAINS[name]).refused()
        assert option in line, line
        assert "must be" in line or "invalid int value" in line, line
