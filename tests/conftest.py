"""What every test shares: one thread, float32, Ctrl-C, an empty cache, and a small text from a known HMM."""

import functools
import logging
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import MODELS, QUICK, command
from hydra._internal.hydra import Hydra

from lmzoo.cli import hydra as cli_hydra
from lmzoo.cli import overrides
from lmzoo.core.configs import CONFIGS
from lmzoo.corpus import Corpus, load_corpus
from lmzoo.corpus.markov import MarkovSource
from lmzoo.training import trainer


@pytest.fixture(autouse=True, scope="session")
def _surroundings(tmp_path_factory: pytest.TempPathFactory):
    os.environ["LMZOO_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    torch.set_num_threads(1)
    logging.getLogger("hydra.core.utils").setLevel(logging.INFO)  # after hydra.verbose, too
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell tells what it starts with & to ignore Ctrl-C
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "faster_in_bfloat16", lambda _: False)  # the same figures on every machine
        once = composed_once(overrides.composed)
        for module in (overrides, cli_hydra):
            patch.setattr(module, "composed", once)
        patch.setattr(Hydra, "get_mode", mode_if_given(Hydra.get_mode))
        yield


def composed_once(composed: Callable[[str, Sequence[str], Sequence[Path]], Any]):
    """Keep the last configurations of our own files, which do not change: a third of the time of commands."""
    ours = functools.lru_cache(50)(lambda name, given: composed(name, given, [CONFIGS]))
    return lambda name, given, folders: (
        ours(name, tuple(given)) if list(folders) == [CONFIGS] else composed(name, given, folders)
    )


def mode_if_given(mode: Callable[..., Any]):
    """Hydra composes a whole configuration to see whether it sets ``hydra.mode``, which no file of ours does; processes
    of their own, which other tests start, let it.
    """

    def given(self: Hydra, config_name: str, overrides: list[str]) -> Any:
        return mode(self, config_name, overrides) if any("hydra" in override for override in overrides) else None

    return given


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands are called: an empty folder, no data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LMZOO_DATA", raising=False)
    return tmp_path


SOURCE = {"states": 6, "words": 149, "sentence_length": 6, "concentration": 0.3, "seed": 1}
SIZES = {"train": 3000, "valid": 500, "test": 2000}


@pytest.fixture(scope="session")
def source() -> MarkovSource:
    """What `corpus` is drawn from."""
    return MarkovSource.draw(**SOURCE)


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """150 words, 3,000 tokens of training."""
    return load_corpus({"name": "markov", "context": "stream", **SIZES, **SOURCE})


@pytest.fixture(scope="session")
def text() -> list[str]:
    """What the train command needs for `corpus`."""
    return ["corpus=markov", *(f"corpus.{option}={value}" for option, value in (SOURCE | SIZES).items())]


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory, text: list[str]) -> list[str]:
    """An n-gram model and a recurrent network of `corpus`, trained."""
    folder, models = tmp_path_factory.mktemp("runs"), {name: MODELS[name] for name in ("ngram", "rnn")}
    for name, options in models.items():
        assert command(*text, *options, *QUICK, f"run_dir={folder / name}").code == 0
    return [str(folder / name) for name in models]


@pytest.fixture(scope="session")
def ptb() -> Corpus:
    """Penn Treebank, where the machine has it."""
    root = os.environ.get("LMZOO_DATA")
    if root is None or not (Path(root) / "ptb" / "ptb.train.txt").exists():
        pytest.skip("LMZOO_DATA has no Penn Treebank")
    return load_corpus({"name": "ptb", "context": "sentence", "vocabulary": None, "urls": []})


NO_TESTS = pytest.StashKey[set[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark as slow what ``tests/slow.txt`` names: tests of seconds whose quicker siblings run always."""
    named = set(Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in named:
            item.add_marker(pytest.mark.slow)
    config.stash[NO_TESTS] = named - {item.nodeid for item in items}


@pytest.fixture
def no_tests(request: pytest.FixtureRequest) -> set[str]:
    """What ``tests/slow.txt`` names and is no test."""
    if request.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        pytest.skip("not all tests are collected")
    return request.config.stash[NO_TESTS]
