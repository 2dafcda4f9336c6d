"""Corpora: counts, rules, and the known source."""

import hashlib
import itertools
import math
from pathlib import Path

import pytest
import torch

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS_ID, Corpus, Vocabulary, load_corpus, pydoc
from lmzoo.corpus.entries import corpora
from lmzoo.corpus.markov import MarkovSource
from lmzoo.corpus.pydoc import pydoc_lines


def text(**options) -> Corpus:
    """A text of one's own, each line by itself."""
    return load_corpus(defaults("corpus", "text") | {"context": "sentence"} | options)


def test_vocabulary_ranks_by_frequency_after_eos():
    vocabulary = Vocabulary.of(["b a b", "c b a"])
    assert vocabulary.words == ["<eos>", "b", "a", "c"]
    assert vocabulary.encode(["b c", "", "a"]).tolist() == [1, 3, 0, 0, 2, 0]
    assert vocabulary.decode([1, 3, 0, 0, 2]) == "b c <eos>\n<eos>\na"
    assert Vocabulary(["<eos>", "b<eos>"]).decode([1, 1, 0, 1]) == "b<eos> b<eos> <eos>\nb<eos>"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, ["<eos>", "b", "a", "c", "d"]),
        ({"min_count": 2}, ["<eos>", "<unk>", "b", "a"]),
        ({"max_size": 4}, ["<eos>", "<unk>", "b", "a"]),
        ({"max_size": 3}, ["<eos>", "<unk>", "b"]),
        ({"max_size": 5}, ["<eos>", "b", "a", "c", "d"]),
    ],
)
def test_limits_leave_rare_words_to_unk(limits: dict, expected: list[str]):
    assert Vocabulary.of(["b a b", "c b a d"], **limits).words == expected


def test_unk_in_the_text_is_an_ordinary_word():
    assert Vocabulary.of(["a a <unk>"], min_count=2).words == ["<eos>", "a", "<unk>"]
    assert Vocabulary.of(["a a <unk>"], max_size=3).words == ["<eos>", "a", "<unk>"]
    assert Vocabulary.of(["a a b b <unk>"], max_size=3).words == ["<eos>", "<unk>", "a"]


def test_an_unknown_word_is_unk_or_an_error_that_names_its_line():
    assert Vocabulary(["<eos>", "<unk>", "a"]).encode(["a x"]).tolist() == [2, 1, 0]
    with pytest.raises(UserError, match=r"book, line 2: 'x' is not in the vocabulary"):
        Vocabulary(["<eos>", "a"]).encode(["a", "a x"], "book")
    for known, met in (("caf\u00e9", "cafe\u0301"), ("cafe\u0301", "caf\u00e9")):
        with pytest.raises(UserError, match=f"line 1: '{met}' is not in the vocabulary but in another Unicode normal"):
            Vocabulary(["<eos>", known]).encode([met])


def test_one_string_is_not_taken_for_lines():
    with pytest.raises(TypeError, match="not one string"):
        Vocabulary(["<eos>", "a"]).encode("a")


def test_text_files_become_three_splits(tmp_path):
    for split, lines in {"train": "a b\n\nb\n", "valid": "a\n", "test": "b c"}.items():
        (tmp_path / split).write_text(lines)
    paths = {split: str(tmp_path / split) for split in ("train", "valid", "test")}
    (tmp_path / "train").write_text("a b\n\nb b\nd")
    corpus = text(min_count=2, max_size=None, **paths)
    assert corpus.vocabulary.words == ["<eos>", "<unk>", "b"]
    assert corpus.splits["train"].tolist() == [1, 2, 0, 0, 2, 2, 0, 1, 0]
    assert corpus.splits["test"].tolist() == [2, 1, 0]
    assert corpus.sha256["valid"] == hashlib.sha256(b"a\n").hexdigest()
    limited = text(min_count=1, max_size=3, **paths)
    assert limited.vocabulary.words == ["<eos>", "<unk>", "b"]


def test_a_line_ends_with_a_line_feed_alone_and_empty_lines_count(tmp_path):
    """Form feeds and Unicode's line separators part words; every other line is a sentence."""
    (tmp_path / "text").write_bytes("\n\na\x0bb\x0ca\r\nb\u2028a\x85b\n \n\n".encode())
    paths = dict.fromkeys(("train", "valid", "test"), str(tmp_path / "text"))
    corpus = text(min_count=1, max_size=None, **paths)
    a, b = (corpus.vocabulary.index[word] for word in "ab")
    assert corpus.splits["train"].tolist() == [0, 0, a, b, a, 0, b, a, b, 0, 0, 0]


def test_eos_inside_a_line_is_refused():
    with pytest.raises(UserError, match=r"book, line 2: <eos> is added at the end of each line; remove it there"):
        Vocabulary(["<eos>", "<unk>", "a"]).encode(["a", "a <eos> a"], "book")


def test_pydoc_is_english_with_the_stated_unknowns():
    lines = pydoc_lines()
    assert len(lines["train"]) > 6 * len(lines["test"]) > 100
    words = [word for line in lines["train"] for word in line.split()]
    counts = {word: words.count(word) for word in ("the", "<unk>")}
    assert counts["the"] > 1000
    known = set(words)
    assert {word for split in ("valid", "test") for line in lines[split] for word in line.split()} <= known


def test_help_topics_become_lower_cased_sentences_in_three_splits(monkeypatch: pytest.MonkeyPatch):
    """By hand: from ten paragraphs the ninth is for valid and the tenth for test; what train has once is unknown."""
    paragraphs = [f"The Cat_1 eats\n12.5 fish! Only{letter} rests." for letter in "abcdefghij"]
    paragraphs[0] += " Rare."
    paragraphs[8] += " Rare."
    grammar = "x ::= ( [ 1 | 2 ] ) + { 3 }"
    topics = {
        "second": "\n\n".join([*paragraphs[5:], paragraphs[0]]),
        "first": "\n \n".join([grammar, *paragraphs[:5]]),
    }
    monkeypatch.setattr(pydoc, "topics", topics)
    lines = ["the cat_1 eats N fish !", "<unk> rests ."]
    assert pydoc_lines() == {"train": [*lines, "<unk> .", *lines * 7], "valid": [*lines, "<unk> ."], "test": lines}


def test_penn_treebank_has_its_published_counts(ptb):
    assert {split: len(tokens) for split, tokens in ptb.splits.items()} == {
        "train": 929_589,
        "valid": 73_760,
        "test": 82_430,
    }
    assert len(ptb.vocabulary) == 10_000
    assert int((ptb.splits["test"] == EOS_ID).sum()) == 3_761


def brute_force(source: MarkovSource, text: list[int]) -> float:
    """p(text), by summing over every path of hidden states from the boundary state 0."""
    states = range(len(source.transition))
    total = 0.0
    for path in itertools.product(states, repeat=len(text)):
        p = 1.0
        for before, after, word in zip((0, *path), path, text, strict=False):
            p *= float(source.transition[before, after] * source.emission[after, word])
        total += p
    return total


def test_true_perplexity_equals_the_sum_over_paths():
    source = MarkovSource.draw(states=3, words=4, sentence_length=3, concentration=1.0, seed=0)
    torch.testing.assert_close(source.transition.sum(1), torch.ones(4).double())
    torch.testing.assert_close(source.emission.sum(1), torch.ones(4).double())
    text = [2, 4, 0, 1, 1, 0]
    expected = brute_force(source, text) ** (-1 / len(text))
    assert math.isclose(source.perplexity(torch.tensor(text)), expected, rel_tol=1e-12)


def test_a_source_has_the_length_of_sentences_and_the_concentration_asked_for():
    few, many = (MarkovSource.draw(8, 40, 5, concentration, seed=0) for concentration in (0.02, 50.0))
    for source in (few, many):
        torch.testing.assert_close(source.transition[:, 0], torch.tensor([0.0, *[1 / 5] * 8]).double())
        assert source.emission[0].tolist() == [1.0, *[0.0] * 40]
        assert not source.emission[1:, 0].any()
    assert few.emission[1:].amax(1).mean() > 0.5 > 0.1 > many.emission[1:].amax(1).mean()


def test_the_splits_of_a_drawn_text_are_different_and_have_their_own_perplexity(corpus: Corpus, source: MarkovSource):
    assert len({tuple(tokens[:100].tolist()) for tokens in corpus.splits.values()}) == 3
    assert len(set(corpus.sha256.values())) == 3
    for split in ("valid", "test"):
        assert corpus.true_perplexity[split] == pytest.approx(source.perplexity(corpus.splits[split]))
    assert all(tokens[-1] == EOS_ID for tokens in corpus.splits.values())


def test_sampled_words_have_the_source_s_frequencies():
    source = MarkovSource.draw(states=3, words=4, sentence_length=5, concentration=1.0, seed=0)
    text = source.sample(40_000, seed=1)
    assert all(source.sample(1024, seed)[-1] == EOS_ID for seed in range(5))
    assert text[-1] == EOS_ID
    chain = torch.linalg.matrix_power(source.transition, 200)[0]  # stationary
    frequencies = torch.bincount(text, minlength=5) / len(text)
    torch.testing.assert_close(frequencies.double(), chain @ source.emission, atol=0.01, rtol=0)
    assert not torch.equal(source.sample(100, seed=1), source.sample(100, seed=2))


def test_pydoc_s_test_split_does_not_repeat_the_training_text():
    lines = pydoc_lines()
    train = set(lines["train"])
    long = [line for line in lines["test"] if len(line.split()) > 10]
    assert sum(line in train for line in long) < 0.03 * len(long)


def test_the_beginning_of_a_corpus_has_whole_lines():
    splits = {"train": [1, 2, 0, 3, 0, 4, 5, 0], "valid": [1, 0], "test": [1, 2, 3, 4, 5, 0, 1, 0]}
    tensors = {split: torch.tensor(tokens) for split, tokens in splits.items()}
    corpus = Corpus("text", "stream", Vocabulary(["<eos>", *"abcde"]), tensors, {}, {"test": 2.0})
    corpus.notes.update(valid="lines 1 to 1 of train's 9", unknown="rare words are <unk>: 9.1% of train; the more")
    truncated = corpus.truncated(5)
    assert {split: tokens.tolist() for split, tokens in truncated.splits.items()} == {
        "train": [1, 2, 0, 3, 0], "valid": [1, 0], "test": [1, 2, 3, 4, 5, 0]
    }  # fmt: skip
    assert truncated.vocabulary is corpus.vocabulary
    assert not truncated.true_perplexity
    assert truncated.notes == {"unknown": "rare words are <unk>; the more"}
    assert truncated.name == "text, first 5 tokens"
    assert corpus.truncated(8) is corpus  # nothing is cut
    assert corpus.truncated(7).splits["train"].tolist() == [1, 2, 0, 3, 0]
    assert corpus.truncated(8).splits["train"].tolist() == splits["train"]


WORDS = torch.tensor([1, 2, 0])


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({}, None),
        ({"splits": {"train": WORDS, "valid": WORDS[:2]}}, "valid"),  # whose last line has no <eos>
        ({"splits": {"train": WORDS + 1}}, "train"),
        ({"splits": {"train": WORDS - 1}}, "train"),
        ({"splits": {"train": WORDS.float()}}, "train"),
        ({"splits": {"train": WORDS[None]}}, "train"),
        ({"splits": {"train": WORDS[:0]}}, "train"),
        ({"context": "lines"}, "train"),
        ({"sha256": {"train": "0"}}, "valid"),
    ],
)
def test_a_corpus_by_code_that_breaks_a_rule_is_refused(
    changed: dict, wrong: str | None, monkeypatch: pytest.MonkeyPatch
):
    attributes = {"name": "own", "context": "stream", "vocabulary": Vocabulary(["<eos>", "a", "b"])}
    attributes |= {"splits": {"train": WORDS, "valid": WORDS}, "sha256": {"train": "0", "valid": "1"}} | changed
    monkeypatch.setattr(corpora, "entries", {**corpora.entries, "own": lambda: Corpus(**attributes)})
    if wrong is None:
        assert load_corpus({"name": "own"}).splits["train"].tolist() == [1, 2, 0]
    else:
        with pytest.raises(UserError, match=f"^corpus=own: {wrong} is not .N,. int64 words below 3, <eos> last"):
            load_corpus({"name": "own"})


def test_many_empty_lines_are_reported(tmp_path: Path):
    (tmp_path / "train").write_text("a b\n\nb a\n\n" * 5)
    (tmp_path / "valid").write_text("a b\n" * 5 + "\n")
    options = {split: str(tmp_path / split) for split in ("train", "valid")}
    corpus = load_corpus(defaults("corpus", "text") | options)
    assert corpus.warnings == [
        "train: 10 of 20 lines are empty; each counts as a token that is easy to predict, so perplexity is lower than "
        "of the text without them"
    ]
