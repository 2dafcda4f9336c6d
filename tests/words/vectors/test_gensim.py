"""Files of word vectors from gensim to here and back; gensim is in the extra ``bench``."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from lmzoo.words.vectors.formats import Format, encoded, read_vectors
from lmzoo.words.vectors.word_vectors import WordVectors

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    keyedvectors = pytest.importorskip("gensim.models.keyedvectors")

WORDS = ["the", "naïve", "1990", "<unk>", "日本"]


@pytest.fixture
def matrix() -> torch.Tensor:
    return torch.randn(5, 7, generator=torch.Generator().manual_seed(0))


FORMATS = [("word2vec", {"binary": True}), ("word2vec-text", {}), ("glove", {"no_header": True})]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # gensim leaves a GloVe file open
@pytest.mark.parametrize(("form", "options"), FORMATS)
def test_gensim_reads_what_is_written_here(
    form: Format, options: dict[str, bool], matrix: torch.Tensor, tmp_path: Path
):
    file = tmp_path / "v"
    file.write_bytes(encoded(WordVectors(WORDS, matrix), form))
    found = keyedvectors.KeyedVectors.load_word2vec_format(str(file), **options)
    assert found.index_to_key == WORDS
    assert np.array_equal(found.vectors, matrix.numpy())


@pytest.mark.parametrize("options", [{"binary": True}, {"binary": False}, {"write_header": False}])
def test_what_gensim_writes_is_read_here(options: dict[str, bool], matrix: torch.Tensor, tmp_path: Path):
    vectors = keyedvectors.KeyedVectors(7)
    vectors.add_vectors(WORDS, matrix.numpy())
    vectors.save_word2vec_format(str(tmp_path / "v"), **options)
    found = read_vectors(tmp_path / "v")
    assert found.words == WORDS
    assert torch.equal(found.matrix, matrix)


@pytest.mark.parametrize(("form", "options"), FORMATS[:2])
def test_words_that_are_no_utf_8_are_what_gensim_makes_of_them(
    form: Format, options: dict[str, bool], matrix: torch.Tensor, tmp_path: Path
):
    data = encoded(WordVectors(["the", "caf1", "caf2", "é", "日"], matrix), form)
    (tmp_path / "v").write_bytes(data.replace(b"caf1", b"caf\xe4").replace(b"caf2", b"caf\xe4\xb8"))
    load = keyedvectors.KeyedVectors.load_word2vec_format
    theirs, ours = load(str(tmp_path / "v"), unicode_errors="replace", **options), read_vectors(tmp_path / "v")
    assert ours.words == theirs.index_to_key[:4] == ["the", "caf�", "é", "日"]  # gensim keeps an empty place at the end
    assert np.array_equal(ours.matrix.numpy(), theirs.vectors[:4])


def test_neighbours_are_those_of_gensim(matrix: torch.Tensor):
    vectors = keyedvectors.KeyedVectors(7)
    vectors.add_vectors(WORDS, matrix.numpy())
    theirs, ours = vectors.most_similar("naïve", topn=3), WordVectors(WORDS, matrix).most_similar(WORDS[1], 3)
    assert [word for word, _ in ours] == [word for word, _ in theirs]
    assert [cosine for _, cosine in ours] == pytest.approx([cosine for _, cosine in theirs], abs=1e-6)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # as above
@pytest.mark.parametrize(("form", "options"), FORMATS)
def test_the_first_vector_of_a_word_counts_as_in_gensim(
    form: Format, options: dict[str, bool], matrix: torch.Tensor, tmp_path: Path
):
    data = encoded(WordVectors(["the", "king1", "queen", "king2", "a"], matrix), form)
    (tmp_path / "v").write_bytes(data.replace(b"king1", b"king").replace(b"king2", b"king"))
    theirs = keyedvectors.KeyedVectors.load_word2vec_format(str(tmp_path / "v"), **options)
    ours = read_vectors(tmp_path / "v")
    assert ours.words == theirs.index_to_key[:4] == ["the", "king", "queen", "a"]
    assert np.array_equal(ours.matrix.numpy(), theirs.vectors[:4])
