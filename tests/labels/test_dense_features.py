"""Dense features of words beside loops over words and their neighbours."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Vocabulary
from lmzoo.labels.dense import Dense, windows
from lmzoo.labels.formats import Sentence
from lmzoo.labels.lexical import entry
from lmzoo.labels.model import OpenModel
from lmzoo.models.lds.lds import LinearDynamicalSystem
from lmzoo.protocol.model import Trained, models

LINES = ["The cat saw 12 cats", "a", "saw the 1,000.5"]
SENTENCES = [Sentence(line.split(), [], [[] for _ in line.split()]) for line in LINES]
OPTIONS = defaults("model", "lds") | {"hidden": 3}


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    (tmp_path / "v.txt").write_text("4 2\nthe 1 2\nCat 3 4\nN 5 6\n<eos> 7 8\n")
    return str(tmp_path / "v.txt")


def opened(options: Any = None, model: Any = None, vocabulary: Any = None) -> OpenModel:
    """Opens a language model, where one is given."""
    return lambda option, folder: (Trained(folder, options, model), vocabulary)


def system(unknown: bool = True) -> tuple[LinearDynamicalSystem, Vocabulary]:
    vocabulary = Vocabulary.of(["the cat saw N"], unknown=unknown)
    model = models.build(OPTIONS, vocabulary_size=len(vocabulary))
    random = torch.Generator().manual_seed(0)
    for part in model.buffers():
        part.copy_(torch.randn(part.shape, generator=random) / 3)
    return model.eval(), vocabulary


@pytest.mark.parametrize(
    ("word", "expected"),
    [("The", 1), ("the", 1), ("N", 2), ("n", None), ("1,000.5", 2), ("1\\/2", 2), ("10:30", 2), ("30-year", None),
     ("--", None), (".", None), ("<eos>", None)],
)  # fmt: skip
def test_words_are_sought_as_penn_treebank_has_them(word: str, expected: int | None):
    assert entry(word, {"<eos>": 0, "the": 1, "N": 2}) == expected
    assert entry(word, {"<eos>": 0, "the": 1, "N": 2, "<unk>": 3}) == (3 if expected is None else expected)


def test_windows_end_with_the_sentence():
    rows = torch.arange(1.0, 6.0)[:, None]
    assert windows(rows, [3, 2], 0).tolist() == rows.tolist()
    assert windows(rows, [3, 2], 1).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 0], [0, 4, 5], [4, 5, 0]]
    assert windows(torch.ones(3, 1), [3], 2).tolist() == [[0, 0, 1, 1, 1], [0, 1, 1, 1, 0], [1, 1, 1, 0, 0]]


def test_features_are_vectors_and_what_the_model_makes_of_the_sentence(vectors: str):
    dense = Dense(vectors, "lds", window=0, scale=0.5)
    model, vocabulary = system()
    found = dense.start(SENTENCES, opened(OPTIONS, model, vocabulary))
    of = {"the": [1, 2], "cat": [3, 4], "12": [5, 6], "1,000.5": [5, 6]}
    words = torch.tensor([of.get(w.lower(), [0, 0]) for s in SENTENCES for w in s.words]).double()
    lines = ["the cat saw N <unk>", "<unk>", "saw the N"]
    tokens = [torch.tensor([vocabulary.index[word] for word in line.split()] + [0]) for line in lines]
    states = torch.cat([model.embed(row[None])[0, :-1] for row in tokens]).double()
    expected = torch.cat([0.5 * part / part.square().mean().sqrt() for part in (words, states)], 1)
    assert torch.allclose(found.double(), expected, atol=1e-6)
    assert torch.allclose(dense.rows(SENTENCES[2:]), found[-3:], atol=1e-6)  # at the scale of train

    other = Dense(vectors, "lds", window=1, scale=0.5)
    Path(vectors).write_text("1 1\nx 0\n")  # neither is read again
    other.load_state_dict(deepcopy(dense.state_dict()))
    assert torch.allclose(other.rows(SENTENCES), windows(found, [5, 1, 3], 1), atol=1e-6)


def test_without_vectors_there_are_no_features():
    dense = Dense(None, None, window=1, scale=1.0)
    assert dense.start(SENTENCES, opened()).shape == dense.rows(SENTENCES).shape == (9, 0)


def test_mistakes_are_reported(tmp_path: Path, vectors: str):
    with pytest.raises(UserError, match="has none of the words of train"):
        Dense(vectors, None, 0, 1.0).start([Sentence(["dog"], [], [[]])], opened())
    with pytest.raises(UserError, match=r"labeller.vectors: .*none: no such file"):
        Dense(str(tmp_path / "none"), None, 0, 1.0).start(SENTENCES, opened())
    dense = Dense(None, "lds", 0, 1.0)
    model, vocabulary = system(unknown=False)
    with pytest.raises(UserError, match=r"labeller.encoder=lds: 'a' is not among its words, nor is <unk>; choose"):
        dense.start(SENTENCES, opened(OPTIONS, model, vocabulary))
    options = defaults("model", "ngram")
    ngram = models.build(options, vocabulary_size=len(vocabulary))
    with pytest.raises(UserError, match="encoder=lds: model=ngram makes no vectors of the words of a line; choose"):
        dense.start(SENTENCES, opened(options, ngram, vocabulary))
