"""Words, and not rows, ask for vectors; against plain numpy."""

import numpy as np
import pytest
import torch

from lmzoo.core.errors import UserError
from lmzoo.words.vectors.word_vectors import WordVectors

WORDS = ["king", "man", "woman", "queen", "bank", "Bank", "river"]
MATRIX = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)
MATRIX[3] = MATRIX[0] / np.linalg.norm(MATRIX[0]) - MATRIX[1] / np.linalg.norm(MATRIX[1]) + MATRIX[2] * 0.5
VECTORS = WordVectors(WORDS, torch.from_numpy(MATRIX.copy()))


def cosines(vector: np.ndarray, without: list[str]) -> list:
    all_of_them = MATRIX @ vector / np.linalg.norm(MATRIX, axis=1) / np.linalg.norm(vector)
    ranked = sorted(zip(WORDS, all_of_them, strict=True), key=lambda each: -each[1])
    return [(word, pytest.approx(float(value), abs=1e-5)) for word, value in ranked if word not in without]


def test_a_word_has_its_vector():
    assert len(VECTORS) == 7
    assert "bank" in VECTORS
    assert "BANK" not in VECTORS
    assert 3 not in VECTORS
    np.testing.assert_array_equal(VECTORS["bank"], MATRIX[4])
    np.testing.assert_array_equal(VECTORS["Bank"], MATRIX[5])
    assert repr(VECTORS) == "<vectors of 7 words in 5 dimensions>"
    for error in (KeyError, UserError):
        with pytest.raises(error, match=r"^'bnak' has no vector; did you mean 'bank'\?$"):
            VECTORS["bnak"]
    with pytest.raises(TypeError, match="a word is a string, not 3"):
        VECTORS[3]  # pyright: ignore[reportArgumentType]


def test_similar_words_and_analogies_against_numpy():
    assert VECTORS.most_similar("bank") == cosines(MATRIX[4], ["bank"])
    assert VECTORS.most_similar("bank", 2) == cosines(MATRIX[4], ["bank"])[:2]
    king, man, woman = (MATRIX[i] / np.linalg.norm(MATRIX[i]) for i in range(3))
    answers = VECTORS.analogy("king", "man", "woman")
    assert answers == cosines(king - man + woman, ["king", "man", "woman"])
    assert answers[0][0] == "queen"
    assert VECTORS.analogy("king", "man", "woman", 0) == []


def test_gensim_agrees():
    models = pytest.importorskip("gensim.models", reason="compared with gensim: pip install gensim")
    theirs = models.KeyedVectors(5)
    theirs.add_vectors(WORDS, MATRIX)
    for ours, other in (
        (VECTORS.most_similar("bank", 3), theirs.most_similar("bank", topn=3)),
        (VECTORS.analogy("king", "man", "woman", 3), theirs.most_similar(["king", "woman"], ["man"], topn=3)),
    ):
        assert ours == [(word, pytest.approx(value, abs=1e-5)) for word, value in other]
