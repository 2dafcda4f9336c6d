"""What the pages show of code runs, and each command that they show is read by that command."""

import contextlib
import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import ROOT
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

import lmzoo
from lmzoo.cli import COMMANDS
from lmzoo.cli.command import CommandParser
from lmzoo.cli.hydra import read_command_line
from lmzoo.cli.overrides import check_choices, check_keys, fill_groups, parse
from lmzoo.core.configs import CONFIGS
from lmzoo.core.errors import UserError
from lmzoo.core.options import check
from lmzoo.corpus.entries import corpora
from lmzoo.labels.model import labellers
from lmzoo.labels.tasks import tasks
from lmzoo.protocol.model import models
from lmzoo.runs.trainer_options import TrainerOptions
from lmzoo.training.optimization import optimizers, schedules
from lmzoo.training.session import LEARNERS
from lmzoo.words.vectors.method import methods

PAGES = {file.stem: file.read_text("utf-8") for file in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]}
for file in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
    for cell in json.loads(file.read_text("utf-8"))["cells"]:
        lines = re.sub("^!", "", "".join(re.findall("^!.*\n?", "".join(cell["source"]), re.M)), flags=re.M)
        text = "".join(cell["source"]) if cell["cell_type"] == "markdown" else f"```sh\n{lines}\n```"
        PAGES[file.stem] = f"{PAGES.get(file.stem, '')}\n{text}\n"


def fenced(text: str) -> list[tuple[str, str]]:
    """The language of each block of a page, and what is in it."""
    return re.findall(r"^ *```(\S*)[^\n]*\n(.*?)^ *```$", text, re.M | re.S)


SMALLER = {
    "size=10_000": "size=60",
    "hidden=200": "hidden=4",
    "iterations=30": "iterations=2",
    "hidden=20,": "hidden=4,",
}
"""So that a block of Python takes a second."""


def of_lds(folder: Path) -> dict[str, Any]:
    """What the page of linear systems supposes: numbers of words, vectors, and what ``lmzoo embed`` has written."""
    np.save(folder / "book.npy", np.zeros((2, 4), np.float32))
    (folder / "book.tsv").write_text("line\tword\n0\tthe\n0\tbook\n")
    torch.manual_seed(0)
    return {"tokens": torch.randint(60, (5000,)), "vectors": torch.randn(60, 6)}


GIVEN: dict[str, Callable[[Path], dict[str, Any]]] = {"lds": of_lds}
TESTED_ELSEWHERE = {"models", "huggingface"}  # in test_readme.py and tests/huggingface
PYTHON = {page: [code for language, code in fenced(text) if language == "python"] for page, text in PAGES.items()}


@pytest.mark.parametrize("page", [page for page, code in PYTHON.items() if code and page not in TESTED_ELSEWHERE])
def test_python_runs(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    train = lmzoo.train
    small = ["trainer=debug", "model.embedding=8", "model.hidden=8", "device=cpu"]
    monkeypatch.setattr(lmzoo, "train", lambda *options: train(*options, *small), raising=False)
    names = GIVEN[page](folder) if page in GIVEN else {}
    for code in PYTHON[page]:
        for usual, quick in SMALLER.items():
            code = code.replace(usual, quick)
        exec(compile(code, f"{page}.md", "exec"), names)


def calls(script: str, folder: Path) -> list[list[str]]:
    """What the lines of a script call ``lmzoo`` with. Bash reads it, with no other program to be found."""
    stubs = """
        lmzoo() { printf '%s\\037' "$@" >> "$CALLS"; printf '\\036' >> "$CALLS"; }
        torchrun() { while [ "$1" != lmzoo ]; do shift; done; shift; lmzoo "$@"; }
        command_not_found_handle() { :; }
    """
    noted, bash = folder / ".calls", shutil.which("bash")
    assert bash
    noted.unlink(missing_ok=True)
    subprocess.run(
        [bash, "-c", stubs + script.replace(".venv/bin/", "")], cwd=folder, stdin=subprocess.DEVNULL,
        env={"PATH": "/nowhere", "CALLS": str(noted), "LMZOO_DATA": "data"}, capture_output=True, check=False,
    )  # fmt: skip
    text = noted.read_text("utf-8") if noted.exists() else ""
    return [call.split("\037")[:-1] for call in text.split("\036")[:-1]]


OUTPUT = r"^\$ (.*(?:\\\n.*)*)"
"""A command before what it printed."""


def scripts() -> Iterator[tuple[str, str]]:
    """Shell lines, once each: scripts, blocks of them, those after ``$`` in output, and ``lmzoo …`` in a sentence."""
    for file in sorted((ROOT / "docs/benchmarks").glob("*.sh")):
        yield file.name, file.read_text("utf-8")
    for file in sorted((ROOT / "docs/benchmarks").glob("*.txt")):
        yield from ((file.name, line) for line in re.findall(OUTPUT, file.read_text("utf-8"), re.M))
    for page, text in PAGES.items():
        for language, block in fenced(text):
            lines = re.findall(OUTPUT, block, re.M) if language in ("", "console") else [block]
            yield from ((page, line) for line in lines if language in ("", "console", "sh"))
        for part in re.findall(r"(?<!`)`([^`]+)`(?!`)", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)):
            line = re.sub(r"^… ", "lmzoo train ", " ".join(part.replace("\\|", "|").split()))
            if line.startswith("lmzoo ") and "…" not in line:
                yield page, f"{MENTION}{line}"


MENTION = ": in a sentence; "
"""Before a line of which a sentence may leave out what it does not speak of."""

PLACES = {
    "RATE": "0.1", "DECAY": "0.1", "EPOCHS": "2", "SEED": "1", "LABELLER": "crf", "TASK": "pos", "METHOD": "ppmi",
    "MODEL": "lstm",
}  # fmt: skip
"""What stands for a value that a reader is to choose."""


def filled(argument: str) -> str:
    """An argument with a value where a reader is to choose one."""
    key, equals, value = argument.partition("=")
    return key + equals + PLACES.get(value, value) if equals else argument


class Read(BaseException):
    """A command has read its arguments."""


def read(call: list[str]) -> None:
    """Let a command read a line, up to where it would begin. Of a sweep one run is read whole.

    Raises: UserError as the command does.
    """
    name, *arguments = call
    if name not in COMMANDS:
        raise UserError("no such command")
    if name in LEARNERS:
        read_options(name, [filled(argument) for argument in arguments if argument not in ("OPTIONS", "--help")])
        return

    def parsing(parse: Callable[..., Any]) -> Callable[..., None]:
        def parsed(*given: Any, **options: Any) -> None:
            parse(*given, **options)
            raise Read

        return parsed

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Read):
        for way in ("parse_args", "parse_intermixed_args"):
            patch.setattr(CommandParser, way, parsing(getattr(CommandParser, way)))
        patch.setattr("lmzoo.cli.command.load_plugins", lambda names: None)
        patch.setattr("lmzoo.cli.command.find", Path)  # no run is there
        patch.setattr("sys.argv", ["lmzoo", *arguments])
        importlib.import_module(f"lmzoo.commands.{name}").main()


def read_options(name: str, arguments: list[str]) -> None:
    """Check the options of a run as training checks them, before it reads a text."""
    line = read_command_line(arguments)
    check_choices(line.overrides, name, line.multirun, [CONFIGS])
    check_keys(line.overrides, name, [CONFIGS])
    chosen = []
    for override in map(parse, line.overrides):
        if override.key_or_group.startswith("hydra"):  # of other packages' launchers and sweepers
            continue
        if override.is_sweep_override() and override.is_discrete_sweep():
            chosen.append(f"{override.key_or_group}={list(override.sweep_string_iterator())[-1]}")
        elif not override.is_sweep_override():
            chosen.append(override.input_line)
    fill_groups([CONFIGS])
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config: Any = OmegaConf.to_container(compose(name, chosen), resolve=True)
    for registry in (models, optimizers, schedules, corpora, methods, labellers, tasks):
        if registry.kind in config:
            registry.check(config[registry.kind])
    if "trainer" in config:
        check(TrainerOptions, config["trainer"], "trainer.")


LINES = {script: page for page, script in reversed(list(scripts())) if " unigram" not in script.replace("=", " ")}
"""The page that has them first, of all lines that name models of the zoo."""


@pytest.mark.parametrize("page", sorted({*LINES.values()}))
def test_each_line_is_one_that_its_command_reads(page: str, folder: Path):
    wrong = []
    for script in (script for script, of in LINES.items() if of == page):
        found = calls(re.sub(r"\[[^]=]* or [^]]*\]", "test", script), folder)  # [SPLIT or FILE]
        assert found or "lmzoo " not in script, f"bash calls nothing in {script}"
        mention = script.startswith(MENTION)
        for call in found:
            try:
                if call != ["COMMAND"] and not (mention and call[1:] == [] and call[0] in COMMANDS):
                    read(call)
            except UserError as error:
                if not (mention and "are required" in str(error)):
                    wrong.append(f"lmzoo {' '.join(call)}: {error}")
    assert not wrong, "\n".join(wrong)


def test_a_mistake_in_a_line_is_found(folder: Path):
    (call,) = calls("x=ngram\nlmzoo train \\\n  model=$x model.oder=3 | head", folder)
    assert call == ["train", "model=ngram", "model.oder=3"]
    with pytest.raises(UserError, match=r"model\.oder"):
        read(call)
    with pytest.raises(UserError, match="--simples"):
        read(["generate", "RUN", "--simples", "3"])
    with pytest.raises(UserError, match=r"model\.order"):
        read(["train", "model=ngram", "model.order=many"])
