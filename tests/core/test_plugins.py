"""Models of the user's own: a module that registers one, and a folder with its configuration."""

import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import ROOT, TEXT, command, edit, put
from own_plugin import MODULE

from lmzoo.api import load
from lmzoo.commands import evaluate
from lmzoo.core import plugins
from lmzoo.core.errors import UserError
from lmzoo.core.plugins import load_plugins
from lmzoo.corpus.entries import corpora, load_corpus
from lmzoo.protocol.model import models
from lmzoo.training.optimization import optimizers, schedules


def test_a_model_of_one_s_own_is_trained_resumed_and_measured(own: Path, monkeypatch: pytest.MonkeyPatch):
    line = ["--config-dir", "mine", "model=mine", "plugins=[zoo.own]", *TEXT, "run_dir=run"]
    done = command(*line)
    assert done.code == 0, done
    assert "mine on markov" in done.out
    assert "already finished" in command(*line).out
    monkeypatch.setattr(models, "entries", {name: of for name, of in models.entries.items() if name != "mine"})
    sys.modules.pop("zoo.own")  # another process, which has to find the model again
    measured = command("run", "--plugins", "zoo.own", main=evaluate.main)
    assert measured.out.startswith("mine on test"), measured


def test_its_options_are_checked(own: Path):
    line = ["plugins=[zoo.own]", "--config-dir", "mine", *TEXT]
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


TAKEN = f"model 'lstm' is taken by lmzoo.models.neural.recurrent.LSTM of {ROOT}/lmzoo/models/neural/recurrent.py"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import nowhere_at_all", "zoo/own.py:1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("import zoo.own.more", "zoo/own.py:1: ModuleNotFoundError: No module named 'zoo.own.more'; "),
        ("from zoo import more", "zoo/own.py:1: ImportError: cannot import name 'more' from 'zoo'"),
        ("x = 1\nraise ValueError('why')", "zoo/own.py:2: ValueError: why"),
        ("x = 1\nlen(3)", "zoo/own.py:2: TypeError: object of type 'int' has no len()"),
        ("x = 1\n\n1 +", "zoo/own.py:3: SyntaxError: invalid syntax"),
        ("import sys\nsys.exit(3)", "zoo/own.py:2: SystemExit: 3"),
        ("import json\njson.loads('{')", "zoo/own.py:2: JSONDecodeError: Expecting property name"),
        ("import torch\ntorch.zeros(2) @ torch.zeros(3)", "zoo/own.py:2: RuntimeError: "),
        ("import zoo.helper", "zoo/helper.py:2: NameError: name 'nothing' is not defined"),
        (MODULE.replace("mine", "lstm"), f"zoo/own.py:5: {TAKEN}; choose another name"),
    ],
)
def test_a_plugin_s_own_mistakes_are_its_own(code: str, told: str, own: Path):
    (own / "zoo/own.py").write_text(code)
    (own / "zoo/helper.py").write_text("\nnothing")
    refused = command("model=ngram", "plugins=[zoo.own]", *TEXT, "run_dir=run").refused()
    assert refused.startswith(f"error: plugins=zoo.own: {told}"), refused
    with pytest.raises(UserError) as raised:
        load_plugins(["zoo.own"])
    assert raised.value.__cause__ is not None, "a notebook shows the whole traceback"


def test_a_package_that_looks_for_itself_in_vain(own: Path):
    """It is there; an import within it is not."""
    (own / "zoo/__init__.py").write_text("\nimport zoo.gone")
    refused = command("model=ngram", "plugins=[zoo.gone]", *TEXT, "run_dir=run").refused()
    assert "plugins=zoo.gone: zoo/__init__.py:2: ModuleNotFoundError: No module named 'zoo.gone'" in refused


def test_a_plugin_may_be_imported_again(own: Path):
    """In a notebook; and after an error in its last line."""
    (own / "zoo/own.py").write_text(MODULE + "nothing")
    for _ in range(2):
        with pytest.raises(UserError, match=r"zoo/own\.py:8: NameError"):
            load_plugins(["zoo.own"])
    (own / "zoo/own.py").write_text(MODULE + "\n" * 100)  # of another size, or the cached code would do
    load_plugins(["zoo.own"])
    assert models.entries["mine"].__module__ == "zoo.own"


@pytest.fixture
def run(own: Path) -> Path:
    """A run of `mine`, as another process finds it that has not imported ``zoo.own``."""
    assert command("--config-dir", "mine", "model=mine", "plugins=[zoo.own]", *TEXT, "run_dir=run").code == 0
    forget()
    return own / "run"


def forget() -> None:
    models.entries.pop("mine", None)
    sys.modules.pop("zoo.own", None)


EVIL = "raise SystemExit('executed')"


def name_plugin(run: Path, name: str) -> None:
    """Let the run ask for a plug-in."""
    edit(run / "config.yaml", put("plugins", value=[name]))


@pytest.mark.parametrize(
    "name",
    ["run.evil", "run", "run.inside.evil", "unittest.__main__", "linked", "beside", "below.deep.evil", "antigravity"],
)
def test_what_a_run_names_is_not_imported(name: str, run: Path, monkeypatch: pytest.MonkeyPatch):
    name_plugin(run, name)
    (run / "inside").mkdir()
    (run.parent / "below/deep").mkdir(parents=True)
    for file in ("evil.py", "__init__.py", "inside/__init__.py", "inside/evil.py"):
        (run / file).write_text(EVIL)
    for file in ("beside.py", "below/deep/evil.py"):
        (run.parent / file).write_text(EVIL)
    (run.parent / "linked.py").symlink_to(run / "evil.py")
    monkeypatch.setattr("webbrowser.open", lambda _: pytest.fail("executed"))  # the side effect of antigravity
    before = set(sys.modules)
    refused = command("run", main=evaluate.main).refused()
    assert f"run: needs the plug-in {name}; add --plugins {name}" in refused
    assert not {module for module in set(sys.modules) - before if module.startswith(name.partition(".")[0])}


def test_the_user_names_the_plugins_of_a_run(run: Path, monkeypatch: pytest.MonkeyPatch):
    assert "needs the plug-in zoo.own" in command("run", main=evaluate.main).refused()
    assert command("run", "--plugins", "zoo.own", main=evaluate.main).out.startswith("mine on test")
    forget()
    monkeypatch.setenv("LMZOO_PLUGINS", "json,zoo.own")
    assert command("run", main=evaluate.main).out.startswith("mine on test")
    forget()
    monkeypatch.delenv("LMZOO_PLUGINS")
    with pytest.raises(UserError, match=r"needs the plug-in zoo\.own"):
        load("run")
    assert load("run", plugins=["zoo.own"]).score("") < 0
    assert load("run").score("") < 0  # a notebook has imported it by now


def test_a_run_that_starts_from_a_plugin_s_run(run: Path):
    cached = ["model=cache", "model.run=run", *TEXT, "run_dir=cached"]
    assert "model.run: run: needs the plug-in zoo.own" in command(*cached).refused()
    assert command(*cached, "plugins=[zoo.own]").code == 0


def test_the_current_folder_replaces_no_module(own: Path, monkeypatch: pytest.MonkeyPatch):
    """It is searched for a plug-in that the user names, last, and for nothing else."""
    monkeypatch.setattr(sys, "path", [place for place in sys.path if Path(place) != own and place != ""])
    (own / "colorsys.py").write_text(EVIL)
    sys.modules.pop("colorsys", None)
    with (own / "zoo/own.py").open("a") as module:
        module.write("import colorsys")
    load_plugins(["zoo.own"])
    assert str(own) in str(sys.modules["zoo.own"].__file__)
    assert not any(place in ("", str(own)) for place in sys.path)


@pytest.mark.parametrize("name", ["program", "lmzoo_program"])
@pytest.mark.parametrize("joined", [True, False])
def test_a_program_that_imports_the_package_keeps_its_own_folder(name: str, joined: bool, tmp_path: Path):
    """Python imports the package of ``python -m PROGRAM.main`` before it has named the module in sys.argv."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("import lmzoo")
    (tmp_path / name / "main.py").write_text("import beside, sys; print(sys.path[0])")
    (tmp_path / "beside.py").touch()
    start = [f"-m{name}.main"] if joined else ["-m", f"{name}.main"]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *start, "-m", "lmzoo"], cwd=tmp_path, env=surroundings,
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout == f"{tmp_path}\n"


LATER = ["yaml", "signal", "json", "numpy", "torch", "tqdm", "tensorflow", "zstandard", "hydra", "re", "pathlib"]
"""Modules that a command imports, and some that a library tries to."""


@pytest.mark.parametrize("way", ["script", "module"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_command_imports_nothing_of_the_current_folder(way: str, inside: bool, tmp_path: Path, folder: Path):
    assert command("model=ngram", *TEXT, "run_dir=run").code == 0
    here = folder / "run" if inside else folder
    for name in LATER:
        (here / f"{name}.py").write_text(EVIL)
    (here / "evil-1.dist-info").mkdir()
    (here / "evil-1.dist-info/entry_points.txt").write_text("[lmzoo.models]\nevil = yaml")
    (here / "evil-1.dist-info/METADATA").write_text("Name: evil\nVersion: 1")
    script = tmp_path / "bin/start.py"
    script.parent.mkdir()
    script.write_text("from lmzoo.__main__ import run\nrun()")
    start = [str(script), "evaluate"] if way == "script" else ["-m", "lmzoo", "evaluate"]
    done = subprocess.run(
        [sys.executable, *start, "." if inside else "run"], cwd=here, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.startswith("ngram on test"), done


def test_an_installed_package_offers_models(own: Path, monkeypatch: pytest.MonkeyPatch):
    offered = [EntryPoint("mine", "zoo.own", plugins.GROUP)]
    monkeypatch.setattr(plugins, "entry_points", lambda group: offered if group == "lmzoo.models" else [])
    load_plugins([])
    assert "mine" in models.entries
    monkeypatch.setattr(plugins, "entry_points", lambda group: [EntryPoint("x", "zoo.gone", group)])
    with pytest.raises(UserError, match=r"plugins=zoo\.gone: no such module"):
        load_plugins([])


PAGE = (ROOT / "docs/models.md").read_text("utf-8")


def shown(part: str) -> str:
    """The first block of the page that contains a part."""
    return next(block for block in re.findall(r"```\w+\n(.*?)```", PAGE, re.DOTALL) if part in block)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, whose modules and their entries do not stay after a test."""
    monkeypatch.chdir(tmp_path)
    for registry in (models, corpora, optimizers, schedules):
        monkeypatch.setattr(registry, "entries", dict(registry.entries))
    for name in ("of_the_page", "brackets", "lion"):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def test_the_model_of_the_documentation_is_one(place: Path):
    code = shown("register(").replace('register("unigram")', 'register("of_the_page")')
    (place / "of_the_page.py").write_text(code)
    options = ["model=of_the_page", "plugins=[of_the_page]", "device=cpu", "run_dir=run"]
    assert command(*TEXT, *options).code == 0
    assert "of_the_page on test" in command("run", "--plugins", "of_the_page", main=evaluate.main).out


def test_the_corpus_the_optimizer_and_the_schedule_of_the_documentation_train_a_model(place: Path):
    (place / "brackets.py").write_text(shown("corpora.register("))
    (place / "lion.py").write_text(shown("optimizers.register("))
    options = ["plugins=[brackets,lion]", "corpus=brackets", "corpus.lines=60", "optimizer=lion", "device=cpu"]
    options += [
        "schedule=inverse_root",
        "schedule.hold=2",
        "model=rnn",
        "model.hidden=4",
        "trainer.epochs=1",
        "trainer.precision=float32",
    ]
    done = command(*options, "run_dir=run")
    assert done.code == 0, done
    assert "rnn on test" in command("run", "--plugins", "brackets,lion", main=evaluate.main).out
    corpus = load_corpus({"name": "brackets", "context": "sentence", "lines": 60})
    text = corpus.vocabulary.decode(corpus.splits["train"].tolist()).split()
    steps = torch.tensor([{"(": 1, ")": -1, "<eos>": 0}[word] for word in text])
    ends = torch.tensor([word == "<eos>" for word in text])
    assert int(ends.sum()) == 60
    assert int(steps.cumsum(0).min()) == 0
    assert not steps.cumsum(0)[ends].any()


def test_the_optimizer_and_the_schedule_of_the_documentation_step_by_hand():
    names: dict[str, Any] = {"__name__": "lion"}
    source = re.sub(r"@(optimizers|schedules)\.register.*\n", "", shown("optimizers.register("))
    exec(compile(source, "models.md", "exec"), names)
    weight = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = names["lion"]([weight], lr=0.1, weight_decay=0.5, beta1=0.9, beta2=0.5)
    rates = names["inverse_root"](optimizer, 1, 3, hold=2)
    for gradient, rate, expected in (
        ([3.0, -4.0], 0.1, [1 - 0.1 * (1 + 0.5), -2 + 0.1 * (1 + 1)]),
        ([-1.0, 40.0], 0.1, [0.85 - 0.1 * (1 + 0.425), -1.8 - 0.1 * (1 - 0.9)]),  # of 0.9 · 1.5 - 0.1, of -1.8 + 4
        ([0.0, 0.0], 0.1 * (2 / 3) ** 0.5, None),
    ):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rate)
        weight.grad = torch.tensor(gradient)
        optimizer.step()
        rates.step()
        if expected:
            assert weight.tolist() == pytest.approx(expected)


def test_the_named_text_of_the_documentation_is_a_corpus(place: Path):
    (place / "my/configs/corpus").mkdir(parents=True)
    (place / "my/configs/corpus/novel.yaml").write_text(shown("train: novel.txt"))
    (place / "novel.txt").write_text("a b c .\n" * 30 + "b a .\n" * 30)
    done = command("--config-dir", "my/configs", "corpus=novel", "model=ngram", "model.order=2", "run_dir=run")
    assert done.code == 0, done
    assert "ngram on novel" in done.out
