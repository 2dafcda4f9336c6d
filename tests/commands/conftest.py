"""A small trained run and a chunked text that several commands read."""

from pathlib import Path

import chunks
import pytest
from command_line import command
from predictions import TRAIN


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trigram model whose words are the, dog, saw, a, cat and <unk>."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text").write_text(TRAIN)
    files = [f"corpus.{split}={folder / 'text'}" for split in ("train", "valid", "test")]
    model = ["model=ngram", "model.order=3", "model.smoothing=witten_bell"]
    options = ["corpus=text", *files, "corpus.min_count=2", *model, "device=cpu", f"run_dir={folder / 'run'}"]
    assert command(*options).code == 0
    return folder / "run"


@pytest.fixture
def labelled(folder: Path) -> Path:
    """A folder with a chunked text, train.txt and test.txt."""
    Path("train.txt").write_text(chunks.TRAIN)
    Path("test.txt").write_text(chunks.TEST)
    return folder
