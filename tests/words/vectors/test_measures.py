"""Spearman's correlation against scipy's, analogies against a loop over all words, formats both ways."""

import codecs
import gzip
import math
import struct
from pathlib import Path

import pytest
import torch
from scipy.stats import spearmanr

from lmzoo.core.errors import UserError
from lmzoo.words.vectors import measures
from lmzoo.words.vectors.formats import Format, encoded, read_vectors
from lmzoo.words.vectors.measures import EPSILON, Pairs, answered, read_questions, scores, spearman
from lmzoo.words.vectors.word_vectors import WordVectors, unit


def test_spearman_is_scipys_with_ties_and_without():
    random = torch.Generator().manual_seed(0)
    for most in (4, 1000):
        x, y = torch.randint(most, (2, 50), generator=random).float()
        assert spearman(x, y) == pytest.approx(spearmanr(x, y).statistic)
    for few in (1, 2):
        assert math.isnan(spearman(x[:few], y[:few]))


def test_answers_are_the_best_words_but_those_of_the_question():
    vectors = unit(torch.randn(30, 5, generator=torch.Generator().manual_seed(0)))
    questions = torch.randint(30, (40, 3), generator=torch.Generator().manual_seed(1))
    cos = (vectors @ vectors.T).double()
    for (a, a_, b), (add, mul) in zip(questions.tolist(), scores(vectors, questions).argmax(2).T.tolist(), strict=True):
        others = [w for w in range(30) if w not in (a, a_, b)]
        shifted = (cos + 1) / 2
        assert add == max(others, key=lambda w: float(vectors[w] @ (vectors[b] - vectors[a] + vectors[a_])))
        assert mul == max(others, key=lambda w: float(shifted[w, b] * shifted[w, a_] / (shifted[w, a] + EPSILON)))


def test_words_are_ranked_as_answers_by_their_scores():
    vectors = unit(torch.randn(30, 5, generator=torch.Generator().manual_seed(0)))
    a, a_star, b = 4, 9, 2
    add, mul = scores(vectors, torch.tensor([[a, a_star, b]]))[:, 0]
    cos = ((vectors @ vectors.T).double() + 1) / 2
    for word in range(30):
        if word in (a, a_star, b):
            assert add[word] == mul[word] == -torch.inf
        else:
            target = vectors[b] - vectors[a] + vectors[a_star]
            assert float(add[word]) == pytest.approx(float(vectors[word] @ target), abs=1e-5)
            product = cos[word, b] * cos[word, a_star] / (cos[word, a] + EPSILON)
            assert float(mul[word]) == pytest.approx(float(product), rel=1e-4)


def test_pairs_are_parted_by_one_sign_and_have_a_number(tmp_path: Path):
    (tmp_path / "set").write_text("# x\nNew York\tcity\t7.5\tx\r\nlove; sex;-1\nlove, sex,2e-1\nSun  sun 3\n\n")
    pairs = Pairs.read(tmp_path / "set")
    assert pairs.pairs == [("new york", "city"), ("love", "sex"), ("love", "sex"), ("sun", "sun")]
    assert pairs.judged == [7.5, -1, 0.2, 3]
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"a b 1\n"))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"a b c d\n"))
    assert Pairs.read(tmp_path / "a.txt.gz").name == "a"
    assert list(read_questions(tmp_path / "b.txt.gz")) == ["b"]
    for line in (
        "love\tsex\t6,77",
        "love;sex;6,77",
        "love sex 6,77",
        "love\tarea 51\tx",
        "a b nan",
        "a b inf",
        "a\t\t1",
    ):
        (tmp_path / "set").write_text(f"a b 1\n{line}\n")
        with pytest.raises(UserError, match=r"set, line 2: '.*' is not two words and a number; use a decimal point"):
            Pairs.read(tmp_path / "set")


def test_published_sets_with_more_columns_are_read(tmp_path: Path):
    (tmp_path / "rw").write_text(
        "squishing\tsquirt\t5.88\t7\t7\t6\t1\t4\t10\t\t\t\t\nundated\tundatable\t5.83\t10\t9\t7\t8\t1\t0\t\t\t\t\n"
    )
    (tmp_path / "simverb").write_text("take\tremove\tV\t6.81\tSYNONYMS\nwalk\ttrail\tV\t4.81\tCOHYPONYMS\r\n")
    rare, verbs = Pairs.read(tmp_path / "rw"), Pairs.read(tmp_path / "simverb")
    assert (rare.pairs, rare.judged) == ([("squishing", "squirt"), ("undated", "undatable")], [5.88, 5.83])
    assert (verbs.pairs, verbs.judged) == ([("take", "remove"), ("walk", "trail")], [6.81, 4.81])
    for line in ("take\tremove\tV\tSYNONYMS", "take\tremove\tVERB\t6.81", "take remove V"):
        (tmp_path / "simverb").write_text(f"a\tb\t1\n{line}")
        with pytest.raises(UserError, match="is not two words and a number"):
            Pairs.read(tmp_path / "simverb")


def test_a_line_of_headings_is_left_out_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    for text in (
        "Word 1,Word 2,Human (mean)\nlove,sex,6.77\n",
        "word1,word2,score1\nlove,sex,6.77\n",
        "a,b,(mean)\nlove,sex,6.77\n",
        "word1\tword2\tPOS\tSimLex999\nlove\tsex\tA\t6.77\n",
    ):
        caplog.clear()
        (tmp_path / "set").write_text(text)
        read = Pairs.read(tmp_path / "set")
        assert (read.pairs, read.judged) == ([("love", "sex")], [6.77])
        assert caplog.messages == [f"{tmp_path / 'set'}: its first line is read as a header"]


def test_a_file_without_pairs_or_questions_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("# nothing\n")
    with pytest.raises(UserError, match="file: has no pairs"):
        Pairs.read(tmp_path / "file")
    (tmp_path / "file").write_text(": section\n")
    with pytest.raises(UserError, match="file: has no questions"):
        read_questions(tmp_path / "file")


def test_a_word_is_found_as_it_is_or_in_another_case():
    vectors = WordVectors(["US", "us", "The"], torch.eye(3))
    assert [vectors.row(word) for word in ("us", "US", "Us", "the", "absent")] == [1, 0, 0, 2, None]


def test_a_parallelogram_is_answered_right():
    matrix = torch.tensor([[1.0, 0, 1], [1, 0, -1], [0, 1, 1], [0, 1, -1], [3, 1, 0.1]])
    vectors = WordVectors(["man", "woman", "King", "queen", "other"], matrix)
    (section, total) = answered({"royal": [("man", "woman", "king", "queen")]}, vectors)
    assert section == ("royal", 1, 1, 1, 1)
    assert total == ("total", 1, 1, 1, 1)
    cased = WordVectors([*vectors.words, "king", "Man"], torch.cat([matrix, matrix[[3, 0]]]))
    assert answered({"royal": [("man", "woman", "king", "queen")]}, cased)[0] == section


@pytest.mark.parametrize(("most", "size"), [(1 << 24, 50), (210, 7), (1, 1)])
def test_few_questions_are_answered_at_once_among_many_words(most: int, size: int, monkeypatch: pytest.MonkeyPatch):
    vectors = WordVectors([f"w{n}" for n in range(30)], torch.randn(30, 5, generator=torch.Generator().manual_seed(0)))
    words = torch.randint(30, (50, 4), generator=torch.Generator().manual_seed(1)).tolist()
    questions, sizes = {"all": [tuple(f"w{n}" for n in row) for row in words]}, []
    expected = answered(questions, vectors)
    monkeypatch.setattr(measures, "SCORES", most)
    monkeypatch.setattr(measures, "scores", lambda unit, part: sizes.append(len(part)) or scores(unit, part))
    assert answered(questions, vectors) == expected
    assert max(sizes) == size


WORDS = ["the", "naïve", "1990", "N", "<unk>"]


@pytest.mark.parametrize("form", ["word2vec", "word2vec-text", "glove"])
@pytest.mark.parametrize("width", [1, 3])
def test_every_format_is_read_as_it_was_written(form, width, tmp_path: Path):
    vectors = WordVectors(WORDS, torch.randn(5, width, generator=torch.Generator().manual_seed(0)))
    (tmp_path / "v").write_bytes(encoded(vectors, form))
    found = read_vectors(tmp_path / "v")
    assert found.words == WORDS
    assert torch.equal(found.matrix, vectors.matrix)


def test_files_of_the_tools_themselves_are_read(tmp_path: Path):
    rows = torch.tensor([[1, 0.5], [-2, 3]])
    binary = b"2 2\n" + b"".join(w + b" " + row.numpy().tobytes() for w, row in zip([b"a", b"b"], rows, strict=True))
    for data in (
        binary,
        b"2 2\na 1 0.5 \nb -2 3 \n",
        b"a 1 0.5\nb -2.0 3e0\n",
        b"2\t2\na\t1\t0.5\nb\t-2\t3\n",
        b"a\t1\t0.5\nb\t-2\t3\n",
    ):  # gensim has no line ends, word2vec a space
        (tmp_path / "v").write_bytes(data)
        assert torch.equal(read_vectors(tmp_path / "v").matrix, rows)


@pytest.mark.parametrize("form", ["word2vec", "word2vec-text", "glove"])
def test_words_that_are_cut_inside_a_letter_are_read(form: Format, tmp_path: Path):
    matrix = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    data = encoded(WordVectors(["the", "caf1", "caf2", "é"], matrix), form)
    (tmp_path / "v").write_bytes(data.replace(b"caf1", b"caf\xe4").replace(b"caf2", b"caf\xe4\xb8"))
    found = read_vectors(tmp_path / "v")
    assert found.words == ["the", "caf�", "é"]
    assert torch.equal(found.matrix, matrix[[0, 1, 3]])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a file of word vectors"),
        (b"word\n", "a vector has 0 numbers, and 1 to 16,384 are read"),
        (b"a 1 2\nb 1\n", "vector 2 has not 2 numbers"),
        (b"a 1 2\nb 1 2 3\n", "vector 2 has not 2 numbers"),  # or it is the word "b 1"
        (b"2 1\na 1 2\nb 1 2\n", "vector 1 has not 1 numbers"),
        (b"0 2\n", "it has no vectors"),
        (b"3 2\na 1 2\nb 3 4\n", "2 vectors where line 1 says 3"),
        (b"2 0\n", "a vector has 0 numbers, and 1 to 16,384 are read"),
        (b"a 1 nan\n", "a number is not finite"),
        (b"a 1 1e300\n", "a number is not finite"),  # for float32, without a warning of NumPy
        (b"a 1 x\n", "could not convert"),
        (b"2 2\na \0\0\0\0\0\0\0\0b \0", "it is cut"),
        (b"3 99999999999\na 1 2\nb 1 2\nc 1 2\n", "a vector has 99,999,999,999 numbers, and 1 to 16,384 are read"),
        (b"a 1 2 3\n" + b"b\n" * 9, "vector 2 has not 3 numbers"),
    ],
)
def test_other_files_are_refused(data: bytes, message: str, tmp_path: Path):
    (tmp_path / "v").write_bytes(data)
    with pytest.raises(UserError, match=message):
        read_vectors(tmp_path / "v")


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"a 1 2\nb 3 4\na 5 6\nc 7 8\n", 3),
        (b"4 2\na 1 2\nb 3 4\na 5 6\nc 7 8\n", 3),
        (b"5 2\n" + b"".join(word + struct.pack("<2f", *row) for word, row in zip(
            (b"a ", b"b ", b"b ", b"a ", b"c "), ((1, 2), (3, 4), (0, 0), (5, 6), (7, 8)), strict=True)), 3),
    ],
)  # fmt: skip
def test_the_first_vector_of_a_word_counts(data: bytes, number: int, tmp_path: Path, caplog):
    (tmp_path / "v").write_bytes(data)
    found = read_vectors(tmp_path / "v")
    assert found.words == ["a", "b", "c"]
    assert found.matrix.tolist() == [[1, 2], [3, 4], [7, 8]]
    (warning,) = [record.getMessage() for record in caplog.records if record.name.startswith("lmzoo")]
    word, others = ("b", ", and 1 other word later") if data.startswith(b"5") else ("a", "")
    assert (
        warning == f"{tmp_path}/v, vector {number}: '{word}' is a duplicate{others}; the first vector of a word is used"
    )


def test_vectors_are_read_behind_a_byte_order_mark_and_packed(tmp_path: Path):
    data = b"king 1 0\nqueen 0.5 1\n"
    for name, packed in (
        ("v", data),
        ("m", codecs.BOM_UTF8 + data),
        ("v.gz", gzip.compress(data)),
        ("p", gzip.compress(data)),
    ):
        (tmp_path / name).write_bytes(packed)
        assert read_vectors(tmp_path / name).words == ["king", "queen"]
    (tmp_path / "z").write_bytes(gzip.compress(gzip.compress(data)))
    with pytest.raises(
        UserError, match=r"z: not a file of word vectors \(gzip once more\); decompress it, and compress it once"
    ):
        read_vectors(tmp_path / "z")


def test_a_binary_file_with_a_space_in_a_word_or_a_part_missing_is_refused(tmp_path: Path):
    """The bytes of a vector would be taken for a word, and those after it for other numbers."""
    matrix = torch.randn(3, 6, generator=torch.Generator().manual_seed(0))
    whole = encoded(WordVectors(["the", "New_York", "of"], matrix), "word2vec")
    for wrong in (whole.replace(b"New_York", b"New York"), *(whole[:end] for end in range(4, len(whole) - 1))):
        (tmp_path / "v").write_bytes(wrong)
        with pytest.raises(UserError, match="not a file of word vectors"):
            read_vectors(tmp_path / "v")
