"""Small runs of one vocabulary, which has `<unk>`: an n-gram model, an LSTM, two HMMs, a linear system and vectors."""

import random
from pathlib import Path

import pytest
from command_line import MODELS, QUICK, command

from lmzoo.commands import vectors
from lmzoo.page.zoo import Zoo

WORDS = "the a dog cat bank river sees barks of in and england rates банк τράπεζα 銀行".split()  # noqa: SIM905


@pytest.fixture(scope="session")
def folder_of_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders ``ngram``, ``lstm``, ``hmm``, ``vlhmm``, ``lds`` and ``ppmi``."""
    folder, draw = tmp_path_factory.mktemp("zoo"), random.Random(0)
    for split, lines in (("train", 120), ("valid", 20)):
        text = "".join(" ".join(draw.choices(WORDS, k=draw.randint(3, 8))) + "\n" for _ in range(lines))
        (folder / split).write_text(text)
    text = ["corpus=text", f"corpus.train={folder / 'train'}", f"corpus.valid={folder / 'valid'}",
            "corpus.unknown=true", "corpus.context=sentence"]  # fmt: skip
    models = MODELS | {"hmm": ["model=hmm", "model.states=4", "model.iterations=3"]}
    for name in ("ngram", "lstm", "hmm", "vlhmm", "lds"):
        done = command(*text, *QUICK, *models[name], f"run_dir={folder / name}")
        assert done.code == 0, done
    method = ["method=ppmi", "method.dim=4", "method.min_count=1", "method.window=2"]
    done = command(*text, *method, f"run_dir={folder / 'ppmi'}", main=vectors.main)
    assert done.code == 0, done
    return folder


@pytest.fixture(scope="session")
def zoo(folder_of_runs: Path) -> Zoo:
    return Zoo([folder_of_runs / name for name in ("ngram", "lstm", "hmm", "vlhmm", "lds", "ppmi")])
