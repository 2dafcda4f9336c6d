"""What every test shares: one thread, no cached clusters of the user's, and a small text from a known HMM."""

import os
from pathlib import Path

import pytest
import torch
from command_line import command

from lmzoo.corpus import Corpus, load_corpus
from lmzoo.corpus.markov import MarkovSource


@pytest.fixture(autouse=True, scope="session")
def _surroundings(tmp_path_factory: pytest.TempPathFactory):
    os.environ["LMZOO_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    torch.set_num_threads(1)


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
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """An n-gram model and a hidden Markov model of `corpus`, trained."""
    folder = tmp_path_factory.mktemp("runs")
    text = [f"corpus.{option}={value}" for option, value in (SOURCE | SIZES).items()]
    for model in (["ngram", "model.order=2", "model.discount_fallback=true"], ["hmm", "model.states=8"]):
        outcome = command("corpus=markov", *text, f"model={model[0]}", *model[1:], f"run_dir={folder / model[0]}")
        assert outcome.code == 0, outcome
    return [str(folder / "ngram"), str(folder / "hmm")]


@pytest.fixture(scope="session")
def ptb() -> Corpus:
    """Penn Treebank, where the machine has it."""
    root = os.environ.get("LMZOO_DATA")
    if root is None or not (Path(root) / "ptb" / "ptb.train.txt").exists():
        pytest.skip("LMZOO_DATA has no Penn Treebank")
    return load_corpus({"name": "ptb", "context": "sentence", "urls": []})
