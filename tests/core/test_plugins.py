"""Models of the user's own: a module that registers one, and a folder with its configuration."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from command_line import TEXT, command

from lmzoo import evaluate
from lmzoo.core import plugins
from lmzoo.core.errors import UserError
from lmzoo.core.plugins import load_plugins
from lmzoo.core.registry import models

MODULE = """
from lmzoo.core.registry import models
from lmzoo.models.ngram.ngram import NGram

@models.register("mine")
class Mine(NGram):
    pass
"""
OPTIONS = """
defaults: [ngram, _self_]
name: mine
order: 2
discount_fallback: true
"""


@pytest.fixture
def own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module ``zoo.own`` and ``mine/model/mine.yaml``; nothing of it stays after a test."""
    (folder / "zoo").mkdir()
    (folder / "zoo/own.py").write_text(MODULE)
    (folder / "mine/model").mkdir(parents=True)
    (folder / "mine/model/mine.yaml").write_text(OPTIONS)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(models, "entries", dict(models.entries))
    for name in ("zoo", "zoo.own"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


def test_a_model_of_one_s_own_is_trained_resumed_and_measured(own: Path, monkeypatch: pytest.MonkeyPatch):
    line = ["--config-dir", "mine", "model=mine", "plugins=[zoo.own]", *TEXT, "run_dir=run"]
    done = command(*line)
    assert done.code == 0, done
    assert "mine on markov" in done.out
    assert "already finished" in command(*line).out
    monkeypatch.setattr(models, "entries", {name: of for name, of in models.entries.items() if name != "mine"})
    sys.modules.pop("zoo.own")  # another process, which has to find the model again
    measured = command("run", main=evaluate.main)
    assert measured.out.startswith("mine on test"), measured


def test_its_options_are_checked(own: Path):
    line = ["--config-dir", "mine", "plugins=[zoo.own]", *TEXT]
    assert "did you mean 'model.order'?" in command(*line, "model=mine", "model.oder=3").refused()
    assert "did you mean 'mine'?" in command(*line, "model=mines").refused()


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("zoo.other", "plugins=zoo.other: no such module; install it, or start the command in its folder"),
        ("nowhere.own", "plugins=nowhere.own: no such module; install it"),
        (".own", "plugins=.own: no such module; write it as an import does"),
    ],
)
def test_a_plugin_that_is_not_there(names: str, message: str, own: Path):
    assert message in command("model=ngram", f"plugins=[{names}]", *TEXT, "run_dir=run").refused()
    assert not (own / "run").exists()


def test_a_plugin_s_own_mistakes_are_its_own(own: Path):
    (own / "zoo/own.py").write_text("import nowhere_at_all")
    with pytest.raises(ModuleNotFoundError, match="nowhere_at_all"):
        load_plugins(["zoo.own"])


@pytest.mark.parametrize("name", ["run.evil", "run", "run.inside.evil"])
def test_a_run_brings_no_code(name: str, own: Path):
    assert command("--config-dir", "mine", "model=mine", "plugins=[zoo.own]", *TEXT, "run_dir=run").code == 0
    config = own / "run/config.yaml"
    config.write_text(config.read_text().replace("zoo.own", name))
    (own / "run/inside").mkdir()
    for file in ("evil.py", "__init__.py", "inside/__init__.py", "inside/evil.py"):
        (own / "run" / file).write_text("raise SystemExit('executed')")
    assert f"plugins={name}: is in the run's folder" in command("run", main=evaluate.main).refused()


def test_an_installed_package_offers_models(own: Path, monkeypatch: pytest.MonkeyPatch):
    offered = [EntryPoint("mine", "zoo.own", plugins.GROUP)]
    monkeypatch.setattr(plugins, "entry_points", lambda group: offered if group == "lmzoo.models" else [])
    load_plugins([])
    assert "mine" in models.entries
    monkeypatch.setattr(plugins, "entry_points", lambda group: [EntryPoint("x", "zoo.gone", group)])
    with pytest.raises(UserError, match=r"plugins=zoo\.gone: no such module"):
        load_plugins([])
