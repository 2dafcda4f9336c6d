"""Texts as numbers, against a loop over their lines and words."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmzoo.core.errors import UserError
from lmzoo.core.files import checked_text
from lmzoo.corpus import Vocabulary, lookup
from lmzoo.corpus.form import Form
from lmzoo.corpus.lookup import PieceTable, Words, WordTable, blocks
from lmzoo.corpus.vocabulary import Lexicon

ODD = "ab\x00\x07\x1b\x1c\x1f\x7f\t\r\x0b\x0c  \n\n\x85\xa0\u1680\u2007\u2028\u202f\u205f\u3000\u200b\ufeffé€😀"
WORDS = [
    *["a", "ab", "aba", "a\0", "\0", "é", "€uro", "😀", "\ufeffa"],
    *["abcdefg", "abcdefgh", "abcdefgh\0", "abcdefghi", "abcdefghijklmnop", "abcdefghijklmno", "Donaudampfschiff"],
    *["x" * n for n in (23, 24, 25, 31, 32, 33, 70)],
]
texts = st.lists(st.sampled_from([*ODD, *WORDS, *(f" {word} " for word in WORDS), " <eos> ", "<unk>"]), max_size=40)


@pytest.fixture(autouse=True, scope="module")
def _long():
    """Vectorized look-up also of short texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzoo.corpus.vocabulary.SHORT", 0)
        yield


vocabularies = st.lists(st.sampled_from(["<unk>", *WORDS]), unique=True)


def outcome(job):
    try:
        return job().tolist()
    except UserError as error:
        return str(error)


def by_loop(vocabulary: Vocabulary, text: str):
    """The numbers of a text, or what is wrong with its first wrong line."""
    numbers, unk = [], vocabulary.index.get("<unk>", -1)
    for line_number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        row = [vocabulary.index.get(word, unk) for word in line.split()]
        if 0 in row:
            return f"text, line {line_number}: <eos> is added"
        if -1 in row:
            return f"text, line {line_number}: '{line.split()[row.index(-1)]}' is not in the vocabulary"
        numbers += [*row, 0]
    return numbers


@settings(deadline=None, max_examples=150)
@given(texts.map("".join), vocabularies, st.sampled_from([1, 7, 2**20]))
@example("a\u2028b\u00a0a\x1cb\r\nab", ["a", "b"], 1)
@example("\n\n \n", [], 2**20)
@example(" ".join(WORDS), WORDS, 2**20)
@example(" ".join(f"{word}b" for word in WORDS), ["<unk>", *WORDS], 2**20)
def test_every_text_has_the_numbers_of_a_loop(text: str, words: list[str], block: int):
    vocabulary = Vocabulary(["<eos>", *words])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "BLOCK", block)
        as_bytes = outcome(lambda: vocabulary.encode(text.encode()))
        as_lines = outcome(lambda: vocabulary.encode(text.removesuffix("\n").split("\n")))
    expected = by_loop(vocabulary, text)
    assert as_bytes == as_lines
    assert as_bytes == expected if isinstance(expected, list) else str(as_bytes).startswith(expected)


@settings(deadline=None)
@given(texts.map("".join), st.sampled_from([1, 2**20]))
def test_a_vocabulary_has_the_words_of_a_loop(text: str, block: int):
    counts: dict[str, int] = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    counts.pop("<eos>", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lookup, "BLOCK", block)
        assert Vocabulary.of(text.encode()).words == ["<eos>", *sorted(counts, key=lambda word: -counts[word])]


def test_words_are_parted_by_what_parts_them_in_python():
    text = "".join(f"{n:x}{chr(n)}" for n in range(0x110000) if not 0xD800 <= n < 0xE000)
    words = Words(text.encode())
    assert words[np.arange(len(words.begin))] == text.split()
    assert words[np.array([7, 0, 7])] == [text.split()[i] for i in (7, 0, 7)]


def test_blocks_end_after_white_space(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lookup, "BLOCK", 4)
    assert list(blocks(b"ab cde f\n\ng h")) == [(0, b"ab cde "), (7, b"f\n\ng "), (12, b"h")]


@pytest.mark.parametrize("key", [0, 5])
def test_words_whose_hashes_are_equal_are_distinguished(key: int, monkeypatch: pytest.MonkeyPatch):
    """Every word of eight bytes or more gets one key."""
    keys = WordTable._keys

    def alike(words: Words) -> np.ndarray:
        return np.where(words.length >= 8, key, keys(words))

    monkeypatch.setattr(WordTable, "_keys", staticmethod(alike))
    vocabulary = Vocabulary(["<eos>", "<unk>", *WORDS])
    assert vocabulary.encode([" ".join(WORDS)]).tolist() == [*range(2, len(WORDS) + 2), 0]
    assert vocabulary.encode([" ".join(f"{word}b" for word in WORDS if word not in ("a", "\ufeffa"))])[:-1].eq(1).all()


def test_no_short_word_has_the_key_of_a_longer_one(monkeypatch: pytest.MonkeyPatch):
    """Times 0, all chunks but the last are lost from a key."""
    monkeypatch.setattr(lookup, "ODD", 0)
    assert Vocabulary(["<eos>", "abcdefghab", "ab"]).encode(["abcdefghab ab"]).tolist() == [1, 2, 0]


def test_very_long_words_are_distinguished_by_their_ends():
    words = ["x" * n for n in (32, 33, 70)]
    assert Vocabulary(["<eos>", *words]).encode([" ".join(words)]).tolist() == [1, 2, 3, 0]


def test_words_that_no_text_has_do_no_harm():
    vocabulary = Vocabulary(["<eos>", "a b", "", "b", "\ud800", "a"])
    assert vocabulary.encode(["a b", "\ud800"]).tolist() == [5, 3, 0, 4, 0]


def test_a_line_feed_within_a_given_line_is_refused_and_a_byte_order_mark_is_left_out():
    vocabulary = Vocabulary(["<eos>", "a", "b"])
    with pytest.raises(UserError, match="text, line 2: is not one line of text"):
        vocabulary.encode(["b", "a\nb"])
    assert vocabulary.encode(checked_text(b"\xef\xbb\xbfa b\n", "text")).tolist() == [1, 2, 0]
    for form in (Form(), Form(lower=True), Form(unit="char")):
        assert Vocabulary(["<eos>", "a"], form).encode([]).tolist() == []


def test_unknown_words_become_unk():
    vocabulary = Vocabulary(["<eos>", "a", "<unk>"])
    assert vocabulary.encode(["a x <unk>", "abcdefghij"]).tolist() == [1, 2, 2, 0, 2, 0]


@pytest.mark.parametrize("mark", ["<s>", "</s>", "<eos>"])
@pytest.mark.parametrize("word", ["{}", "a {}", "{} a", "a\u3000{}", "\t{}\r"])
def test_marks_of_sentences_are_refused_with_their_line(mark: str, word: str):
    text = ["a a", word.format(mark)]
    for vocabulary in (Vocabulary(["<eos>", "a"]), Vocabulary(["<eos>", "a", "<unk>", "<s>"]), Lexicon()):
        where = "the beginning" if mark == "<s>" else "the end"
        with pytest.raises(UserError, match=f"book, line 2: {mark} is added at {where} of each line; remove it there"):
            vocabulary.encode(text, "book")
        pieces = [b"a a\n", text[1].encode() + b"\n"]
        with pytest.raises(UserError, match=f"book, line 2: {mark} is added"):
            list(vocabulary.encode_pieces(pieces, "book"))


def test_what_only_looks_like_a_mark_of_a_sentence_is_text():
    lexicon = Lexicon()
    lexicon.encode(["<S> a<s> <s>a < s > <s/> <ss> </s", "<s>."])
    assert len(lexicon.words) == 11
    characters = Vocabulary(["<eos>", "<", "s", ">", "/"], Form(unit="char"))
    assert characters.encode(["<s></s>"]).tolist() == [1, 2, 3, 1, 4, 2, 3, 0]


def test_a_table_of_new_words_is_made_each_time_they_are_twice_as_many(monkeypatch: pytest.MonkeyPatch):
    made = []
    monkeypatch.setattr(lookup, "BLOCK", 100)
    monkeypatch.setattr(lookup, "WordTable", lambda index: made.append(len(index)) or WordTable(index))
    words = [f"w{i}" for i in range(3000)]
    lexicon = Lexicon()
    assert lexicon.encode([" ".join(words)]).tolist() == [*range(1, 3001), 0]
    assert len(made) > 3
    assert all(size >= 2 * before - 3 for before, size in pairwise(made))  # each has the marks of sentences, too
    assert lexicon.words == ["<eos>", *words]


@given(texts, st.booleans())
def test_a_short_text_is_encoded_as_a_long_one(parts: list[str], unknown: bool):
    text = "".join(parts).encode()
    vocabulary = Vocabulary(["<eos>", *(["<unk>"] if unknown else []), *(set(WORDS) - {"<unk>"})])
    found = []
    for short in (0, 2**12):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lmzoo.corpus.vocabulary.SHORT", short)
            try:
                found.append(vocabulary.encode(text).tolist())
            except UserError as error:
                found.append(str(error))
    assert found[0] == found[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lmzoo.corpus.vocabulary.SHORT", 2**12)
        assert vocabulary.encode([]).tolist() == []


def test_pieces_after_an_interruption() -> None:
    """Words that were numbered when Ctrl-C came have their pieces the next time."""
    table = PieceTable(lambda word: list(word.encode()))
    number = table.words.index.default_factory
    assert number is not None
    table.words.index.default_factory = lambda: number() if len(table.words.index) < 3 else 1 // 0  # as it comes
    with pytest.raises(ZeroDivisionError):
        table.find(Words(b"a b c d\n"))
    table.words.index.default_factory = number
    pieces, begins = table.find(Words(b"d b e\n"))
    assert (bytes(pieces.tolist()), begins.tolist()) == (b"dbe", [0, 1, 2, 3])
