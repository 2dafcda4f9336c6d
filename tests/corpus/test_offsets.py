"""Offsets of words lead back to the words."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lmzoo.corpus.form import Form
from lmzoo.corpus.offsets import word_offsets
from lmzoo.corpus.subwords import learn_subwords
from lmzoo.corpus.tokenizer import TOKENIZERS
from lmzoo.huggingface.causal import RawText

lines = st.text(st.sampled_from("aB c.,'’n't12 -İΣß\u3000\x1c$€😀▁"), max_size=30)


@given(lines, st.sampled_from([None, *TOKENIZERS]), st.booleans(), st.sampled_from([None, *TOKENIZERS]))
@example("Σ Σ", None, True, "words")
@example("aΣ", None, True, None)
@example("Mr. O'Neill didn't pay $1,234.50 for İt", "ptb", False, None)
@example("Mr. O’Neill didn’t pay $1,234.50 for İt", "treebank", True, None)
def test_there_are_as_many_as_words_and_they_are_these(line: str, first: str | None, lower: bool, own):
    form = Form(lower=lower, tokenizer=own)
    words = form.words(line if first is None else TOKENIZERS[first](line))
    *offsets, end = word_offsets(line, form, first)
    assert len(offsets) == len(words)
    assert end == (len(line), len(line))
    for word, (begin, end) in zip(words, offsets, strict=True):
        there = line[begin:end]
        assert (
            word == there
            or (word in ("N", "n") and there[:1].isdigit())
            or word.casefold().replace("’", "'") in re.sub(r"\d+", "n", there.casefold()).replace("’", "'")
            or word.casefold().replace("’", "'") in there.casefold().replace("’", "'")
        )
    assert [begin for begin, _ in offsets] == sorted(begin for begin, _ in offsets)


def test_raw_words_keep_their_punctuation():
    line = "don't stop, now."
    assert [line[slice(*each)] for each in word_offsets(line, RawText())] == ["don't", "stop,", "now.", ""]


def test_examples():
    line = "Mr. Smith's dog didn't cost $1,200."
    assert [line[slice(*each)] for each in word_offsets(line, Form(), "ptb")] == [
        "Mr.", "Smith", "'s", "dog", "did", "n't", "cost", "$", "1,200", "",
    ]  # fmt: skip
    assert word_offsets(" a  bc", Form()) == [(1, 2), (4, 6), (6, 6)]
    assert word_offsets("a b\r", Form(unit="char")) == [(0, 1), (1, 2), (2, 3), (4, 4)]
    assert word_offsets("1,000 a", Form(unit="char", tokenizer="ptb")) == [(0, 5), (5, 5), (6, 7), (7, 7)]


@pytest.fixture(scope="module")
def pieces() -> Form:
    return Form(unit="bpe").with_pieces(learn_subwords(["the cat sat on the mat"] * 9, "bpe", 275))


@given(lines)
@example("the cats é▁")
def test_pieces_are_parts_of_their_words(pieces: Form, line: str):
    words = pieces.words(line)
    *offsets, _ = word_offsets(line, pieces)
    assert len(offsets) == len(words)
    for piece, (begin, end) in zip(words, offsets, strict=True):
        assert line[begin:end] == piece.removeprefix("▁") or (piece.startswith("<0x") and end == begin + 1)
