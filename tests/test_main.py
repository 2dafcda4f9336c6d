"""``python -m lmzoo``: the list of commands."""

import importlib
import sys

import pytest
from command_line import ROOT, command

from lmzoo import __main__
from lmzoo.cli import COMMANDS
from lmzoo.core.version import __version__


def test_it_lists_every_command():
    assert {*COMMANDS} == {path.stem for path in (ROOT / "lmzoo" / "commands").glob("*.py")} - {"__init__"}
    told = command(main=__main__.main).out
    assert "  train        Train a language model" in told
    assert command("--help", main=__main__.main).out == told


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_begins_with_what_it_is_for(name: str):
    told = command("--help", main=importlib.import_module(f"lmzoo.commands.{name}").main).out
    about = told.partition("\n\n")[2] if told.startswith("usage: ") else told
    assert " ".join(about.split()).startswith(COMMANDS[name])
    assert told.startswith(f"usage: lmzoo {name} ") or name in ("train", "vectors", "label")


def test_it_tells_its_version():
    assert command("--version", main=__main__.main).out == f"{__version__}\n"


def test_a_misspelt_command_has_a_hint():
    assert "trian: no such command; did you mean 'train'?" in command("trian", main=__main__.main).refused()


def test_a_command_starts_without_its_name(monkeypatch: pytest.MonkeyPatch):
    started = []
    monkeypatch.setattr(__main__, "start", started.append)
    monkeypatch.setattr(sys, "argv", ["lmzoo", "pairs", "--help"])
    __main__.run()
    assert (started, sys.argv) == (["lmzoo.commands.pairs"], ["lmzoo", "--help"])
