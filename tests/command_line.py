"""The train command called in this process, where a start costs nothing, and small runs to call it on."""

import contextlib
import copy
import functools
import io
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from lmzoo.cli.ending import run_command
from lmzoo.cli.overrides import fill_groups
from lmzoo.commands import train as train_command
from lmzoo.core.checksums import CHECKSUM, with_checksum
from lmzoo.core.configs import CONFIGS
from lmzoo.core.files import sha256
from lmzoo.runs.checkpoint import checkpoint_sha256
from lmzoo.runs.configuration import Configuration
from lmzoo.training import session
from lmzoo.training.trainer import Trainer

ROOT = Path(__file__).parent.parent

TEXT = ["corpus=markov", "corpus.words=20", "corpus.states=4", "corpus.train=400", "corpus.valid=60", "corpus.test=60"]
QUICK = ["trainer.epochs=2", "trainer.batch_size=4", "trainer.bptt=20", "trainer.max_tokens=80", "device=cpu"]
MODELS = {
    "rnn": ["model=rnn", "model.embedding=8", "model.hidden=8"],
    "gru": ["model=gru", "model.embedding=8", "model.hidden=8"],
    "lstm": ["model=lstm", "model.embedding=8", "model.hidden=8", "model.dropout=0.5"],
    "vlhmm": ["model=vlhmm", "model.states=24", "model.clusters=6", "model.dim=8"],
    "lds": ["model=lds", "model.hidden=6", "model.iterations=3"],
    "lds_rnn": ["model=lds_rnn", "model.hidden=6", "model.iterations=3"],
    "ngram": ["model=ngram", "model.order=2", "model.discount_fallback=true"],
}
SMALL = [*TEXT, *QUICK, *MODELS["lstm"]]
"""Five windows an epoch."""


@dataclass
class Outcome:
    """What a command gave."""

    code: int
    out: str
    err: str

    def refused(self) -> str:
        """The message of a command that was refused as it should be: one line, no traceback, exit code 2."""
        assert self.code == 2, self
        line, rest = self.err.split("\n", 1)
        assert line.startswith("error: "), self
        assert not rest, self
        return line


class Terminal(io.StringIO):
    """Standard output that is no pipe."""

    def isatty(self) -> bool:
        return True


def command(*arguments: str, main: Callable[[], int] = train_command.main, terminal: bool = False) -> Outcome:
    """``lmzoo train ARGUMENTS`` in the current folder, or another command; its output may be a terminal."""
    out, err = Terminal() if terminal else io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["lmzoo", *arguments])
        try:
            run_command(main)
        except SystemExit as stop:
            return Outcome(stop.code, out.getvalue(), err.getvalue())  # pyright: ignore[reportArgumentType]
    raise AssertionError("a command ends with an exit code")


def configuration(run_dir: Path, *overrides: str, command: str = "train") -> dict[str, Any]:
    """What the command ``lmzoo train OVERRIDES run_dir=RUN_DIR`` trains, or another command that makes runs."""
    return copy.deepcopy(_composed(command, overrides)) | {"run_dir": str(run_dir)}


def train(config: Mapping[str, Any]) -> dict[str, Any]:
    """Do the run of a `configuration`; see `lmzoo.training.session.train`."""
    return session.train(Configuration(config))


@functools.lru_cache(50)
def _composed(command: str, overrides: tuple[str, ...]) -> dict[str, Any]:
    fill_groups([CONFIGS])
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        config = compose(command, [*overrides, "run_dir=unset"])  # a folder's name may hold signs that Hydra reads
    return OmegaConf.to_container(config, resolve=True)  # pyright: ignore[reportReturnType]


def stop_at(patch: pytest.MonkeyPatch, step: int, number: int = signal.SIGTERM) -> None:
    """Let the next run get a signal while it takes its ``step``-th step."""
    whole = Trainer._step

    def take(self: Trainer, *arguments):
        if self.progress.step + 1 == step:
            os.kill(os.getpid(), number)
        return whole(self, *arguments)

    patch.setattr(Trainer, "_step", take)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def saved(run: Path) -> dict[str, bytes]:
    """Every file of a run but its log, which tells of a refusal, too."""
    return {name: data for name, data in contents(run).items() if name != "train.log"}


def edit(file: Path, change: Callable[[Any], Any]) -> None:
    """Read a file of a run, change what is in it, and write it again with the checksums that a run writes."""
    if file.suffix == ".pt":
        saved = torch.load(file, weights_only=True)
        saved = change(saved) or saved
        if isinstance(saved, dict):
            saved = {key: part for key, part in saved.items() if key != CHECKSUM}
            saved[CHECKSUM] = checkpoint_sha256(saved)
        torch.save(saved, file)
    else:
        reader, writer = (json.loads, json.dumps) if file.suffix == ".json" else (yaml.safe_load, yaml.safe_dump)
        read = reader(file.read_text())
        read = change(read) or read
        file.write_text(writer(with_checksums(read) if file.suffix == ".json" else read))
    if (results := file.with_name("results.json")).exists():
        entries = json.loads(results.read_text())
        if isinstance(entries, dict) and file.name in entries.get("files", {}):
            entries["files"][file.name] = sha256(file.read_bytes())
            results.write_text(json.dumps(with_checksums(entries)))


def with_checksums(tree: Any) -> Any:
    """Entries of JSON, or a list of such, with the checksums that a run writes."""
    if isinstance(tree, list):
        return [with_checksums(part) for part in tree]
    return with_checksum(tree) if isinstance(tree, dict) else tree


def put(*keys: Any, value: Any) -> Callable[[Any], None]:
    """A change that puts a value deep into dictionaries and lists."""

    def change(node: Any) -> None:
        for key in keys[:-1]:
            node = node[key]
        node[keys[-1]] = value

    return change
