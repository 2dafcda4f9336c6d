"""Models of fastText, written here byte by byte, and by gensim; gensim is in the extra ``bench``."""

import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from lmzoo.commands.probe import neighbours, probe
from lmzoo.core.errors import UserError
from lmzoo.words.vectors.fasttext import buckets_of
from lmzoo.words.vectors.formats import read_vectors
from lmzoo.words.vectors.measures import Pairs

ENTRIES = [("</s>", 0), ("Sun", 0), ("naïve", 0), ("__label__x", 1)]
WORDS, BUCKETS, LENGTHS = ["</s>", "Sun", "naïve"], 11, (2, 3)
MATRIX = np.random.default_rng(0).standard_normal((len(WORDS) + BUCKETS, 4)).astype("<f4")


def model(matrix: np.ndarray = MATRIX, *, version=12, buckets=BUCKETS, lengths=LENGTHS, pruned=-1, quantised=False):
    """The bytes of a model as fastText's Args, Dictionary and DenseMatrix save themselves, one after the other."""
    data = struct.pack("<2i", 793712314, version)
    dim, window, epoch, min_count, negative, word_ngrams, loss, kind, rate = matrix.shape[1], 5, 1, 1, 5, 1, 2, 2, 100
    for number in (dim, window, epoch, min_count, negative, word_ngrams, loss, kind, buckets, *lengths, rate):
        data += struct.pack("<i", number)
    data += struct.pack("<d", 1e-4)
    data += struct.pack("<iii", len(ENTRIES), len(WORDS), 1) + struct.pack("<q", 99) + struct.pack("<q", pruned)
    for word, kind in ENTRIES:
        data += word.encode() + b"\0" + struct.pack("<q", 3) + struct.pack("<b", kind)
    return data + struct.pack("<?", quantised) + struct.pack("<2q", *matrix.shape) + matrix.tobytes() + b"output"


def mean(rows: list[int]) -> torch.Tensor:
    return torch.from_numpy(MATRIX[rows].astype(np.float64).mean(0)).float()


def grams(word: str) -> list[int]:
    return [len(WORDS) + number for number in buckets_of(word, *LENGTHS, BUCKETS)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "model.bin").write_bytes(model())
    return tmp_path / "model.bin"


def test_words_are_means_of_their_row_and_their_n_grams_and_others_of_n_grams(file: Path):
    vectors = read_vectors(file)
    assert vectors.words == WORDS
    for row, word in enumerate(WORDS):
        torch.testing.assert_close(vectors.matrix[row], mean([row, *(grams(word) if row else [])]))
    grown = vectors.with_words(["sunny", "SUN", "<unk>", "<eos>", "sunny", "x"])
    assert grown.words == [*WORDS, "sunny", "x"]
    torch.testing.assert_close(grown.matrix, torch.stack([*vectors.matrix, mean(grams("sunny")), mean(grams("x"))]))
    assert vectors.with_words(["sun"]) is vectors


def test_words_without_n_grams_have_no_vectors(file: Path):
    file.write_bytes(model(MATRIX[: len(WORDS)], buckets=0, lengths=(0, 0)))
    vectors = read_vectors(file)
    assert torch.equal(vectors.matrix, torch.from_numpy(MATRIX[: len(WORDS)]))
    assert vectors.with_words(["sunny"]) is vectors


def test_similarity_and_neighbours_are_of_unknown_words_too_but_no_analogies(file: Path):
    sets = [Pairs("set", [("sun", "sunny"), ("naïve", "sunny"), ("sun", "naïve")], [1.0, 2.0, 3.0])]
    questions = {"section": [("sun", "naïve", "sun", "sunny")]}
    rows = probe("m", read_vectors(file), sets, questions)
    assert [(row["covered"], row["of"]) for row in rows] == [(3, 3), *[(0, 1)] * 4]
    assert rows[0]["value"] is not None
    a, b = mean(grams("sunny")), mean([1, *grams("Sun")])
    found = {row["neighbour"]: row["value"] for row in neighbours("m", read_vectors(file), "sunny", 3)}
    assert found["Sun"] == pytest.approx(float(torch.cosine_similarity(a, b, dim=0)), abs=1e-6)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (model(quantised=True), "fastText's model is quantised"),
        (model(pruned=1), "fastText's model is quantised"),
        (model(version=11), "fastText's version 11, not 12"),
        (model(buckets=12), "fastText's matrix has 14 x 4 numbers"),
        (model(MATRIX[:3], buckets=0), "fastText's matrix has 3 x 4 numbers"),
        *((model()[:size], "it is cut") for size in (4, 63, 91, 95, 130, 180, len(model()) - 7)),
        (model(MATRIX * np.inf), "a number is not finite"),
    ],
)
def test_others_are_refused(data: bytes, problem: str, file: Path):
    file.write_bytes(data)
    with pytest.raises(UserError, match=problem):
        read_vectors(file)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("lengths", [(3, 6), (1, 2)])
def test_models_of_gensim_have_its_vectors(lengths: tuple[int, int], tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fasttext = pytest.importorskip("gensim.models.fasttext")
    lines = [["the", "naïve", "cat", "</s>"], ["a", "日本語", "cats"]] * 20
    options = {"vector_size": 6, "bucket": 50, "min_count": 1, "min_n": lengths[0], "max_n": lengths[1]}
    theirs = fasttext.FastText(lines, seed=1, workers=1, **options)
    fasttext.save_facebook_model(theirs, str(tmp_path / "m.bin"))
    others = ["catty", "the日", "é", "catcat"]
    ours = read_vectors(tmp_path / "m.bin").with_words(others)
    assert [*ours.words] == [*theirs.wv.index_to_key, *others]
    for word in {*ours.words} - {"</s>"}:  # whose signs are no n-grams in fastText's program
        np.testing.assert_allclose(ours.matrix[ours.index[word]].numpy(), theirs.wv[word], rtol=1e-5, atol=1e-7)
