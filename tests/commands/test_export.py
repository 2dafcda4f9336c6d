"""The command ``lmzoo export`` on word vectors, and what it refuses; tests/models/ngram has its ARPA files."""

from pathlib import Path

import pytest
import torch
from command_line import MODELS, QUICK, TEXT, command

from lmzoo.commands import export, vectors
from lmzoo.words.vectors.formats import read_vectors


@pytest.fixture
def ppmi(folder: Path) -> str:
    options = ["method=ppmi", "method.dim=4", "method.min_count=1", "run_dir=ppmi"]
    assert command(*TEXT, *options, main=vectors.main).code == 0
    return "ppmi"


def test_vectors_are_written_in_every_format(ppmi: str):
    for form in ("word2vec", "word2vec-text", "glove"):
        assert command(ppmi, form, "--format", form, main=export.main).out == f"{form}\n"
        torch.testing.assert_close(read_vectors(Path(form)).matrix, read_vectors(Path(ppmi)).matrix)
        assert command(form, "again", main=export.main).code == 0
        assert Path("again").read_bytes() == Path("ppmi/vectors.bin").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ppmi", "new", "--format", "arpa"], "ppmi holds word vectors; choose word2vec or word2vec-text or glove"),
        (["ngram", "new", "--format", "glove"], "--format glove: ngram is no run of lmzoo vectors; choose arpa"),
        (["rnn", "new"], "needs an n-gram model, such as model=ngram, or a run of lmzoo vectors"),
        (["ppmi", "ppmi/vectors.bin"], "is a part of the run"),
        (["ppmi/config.yaml", "new"], "no file of word vectors"),
        (["absent", "new"], "absent: not a run directory"),
        (["half", "new"], "half: has no vectors.bin; lmzoo vectors makes one"),
    ],
)
def test_what_cannot_be_exported_is_refused(ppmi: str, arguments: list[str], message: str):
    for name in {"ngram", "rnn"}.intersection(arguments):
        assert command(*TEXT, *QUICK, *MODELS[name], f"run_dir={name}").code == 0
    Path("half").mkdir()
    Path("half/config.yaml").write_bytes(Path("ppmi/config.yaml").read_bytes())
    assert message in command(*arguments, main=export.main).refused()
    assert not Path("new").exists()
