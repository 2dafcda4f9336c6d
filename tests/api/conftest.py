"""Two small models: a stream's, and one of sentences."""

import pytest
from command_line import SMALL, command
from predictions import SENTENCES

import lmzoo
from lmzoo.api import Loaded


@pytest.fixture(scope="session")
def lstm(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert command(*SMALL, f"run_dir={folder}").code == 0
    return lmzoo.load(folder)


@pytest.fixture(scope="session")
def trigrams(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text").write_text(SENTENCES)
    files = [f"corpus.{split}={folder / 'text'}" for split in ("train", "valid", "test")]
    options = ["model=ngram", "model.order=3", "model.discount_fallback=true", "corpus.unknown=true"]
    assert command("corpus=text", *files, *options, f"run_dir={folder / 'run'}").code == 0
    return lmzoo.load(folder / "run")
