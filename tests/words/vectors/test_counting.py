"""Counts against a dictionary, the decomposition against numpy, PPMI and log-entropy against their formulas."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from vectors_corpus import corpus_of, two_topics

from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.numerics.sparse import coo
from lmzoo.words.vectors import cooccurrence
from lmzoo.words.vectors.cooccurrence import Cooccurrences
from lmzoo.words.vectors.counting import LSA, PPMI, log_entropy, shifted_ppmi
from lmzoo.words.vectors.method import WordText

WEIGHT = {"flat": lambda k, L: 1, "linear": lambda k, L: (L - k + 1) / L, "harmonic": lambda k, L: 1 / k}
LINES = ["a b a c", "", "b b d a e", "c a", "a"]


@pytest.mark.parametrize("block", [1 << 24, 6])
@pytest.mark.parametrize("context", ["sentence", "stream"])
@pytest.mark.parametrize("weighting", list(WEIGHT))
def test_cooccurrences_are_those_that_a_dictionary_counts(weighting, context, block, monkeypatch):
    monkeypatch.setattr(cooccurrence, "BLOCK", block)
    text, expected = WordText.of(corpus_of(LINES, context), 2), Counter()
    kept = [[word for word in line.split() if word in "abc"] for line in LINES]
    lines = kept if context == "sentence" else [[word for line in kept for word in line]]
    for line in lines:
        for i, word in enumerate(line):
            for j, other in enumerate(line):
                if 1 <= abs(i - j) <= 3:
                    expected[word, other] += WEIGHT[weighting](abs(i - j), 3)
    found = Cooccurrences.of(text, 3, weighting)
    pairs = [(text.words[i], text.words[j]) for i, j in zip(found.row.tolist(), found.column.tolist(), strict=True)]
    assert dict(zip(pairs, found.weight.tolist(), strict=True)) == pytest.approx(dict(expected))
    code = found.row * found.size + found.column
    assert (code[1:] > code[:-1]).all()


def test_the_text_is_of_frequent_words_the_most_frequent_first():
    text = WordText.of(corpus_of(LINES, "sentence"), 2)
    assert text.words == ["a", "b", "c"]
    assert text.counts.tolist() == [5, 3, 2]
    assert text.tokens.tolist() == [0, 1, 0, 2, 1, 1, 0, 2, 0, 0]
    assert [text.lines.tolist().count(line) for line in text.lines.unique()] == [4, 3, 2, 1]
    assert (WordText.of(corpus_of(LINES, "stream"), 2).lines == 0).all()


@pytest.mark.parametrize(("smoothing", "shift"), [(1, 1), (0.75, 1), (0.75, 2)])
def test_shifted_ppmi_is_that_of_the_formula(smoothing, shift):
    counts = Cooccurrences.of(WordText.of(corpus_of(LINES, "sentence"), 1), 2)
    X = coo(counts.row, counts.column, counts.weight, (5, 5)).to_dense().double().numpy()
    of_context = X.sum(0) ** smoothing
    with np.errstate(divide="ignore"):
        pmi = np.log(X / X.sum(1, keepdims=True) / (of_context / of_context.sum()))
    expected = np.maximum(0, pmi - math.log(shift))
    np.testing.assert_allclose(shifted_ppmi(counts, smoothing, shift).to_dense().numpy(), expected, atol=1e-6)


def test_log_entropy_is_that_of_the_formula():
    X = np.array([[1, 1, 1], [0, 3, 0], [2, 0, 1.0]])
    row, column = map(torch.from_numpy, np.nonzero(X))
    found = log_entropy(row, column, torch.from_numpy(X[X > 0]).long(), (3, 3)).to_dense()
    p = np.array([[1 / 3] * 3, [0, 1, 0], [2 / 3, 0, 1 / 3]])
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(p * np.log(p), 1)
    np.testing.assert_allclose(found, np.log1p(X) * (1 - entropy / np.log(3))[:, None], atol=1e-6)
    assert found[0].abs().max() < 1e-6
    assert float(found[1, 1]) == pytest.approx(math.log(4))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (1, [{"a", "b", "c"}, {"a", "b", "d", "e"}, {"a", "c"}, {"a"}]),
        (2, [{"a", "b", "c"}, {"a", "b", "c", "d", "e"}, {"a"}]),
    ],
)
def test_documents_are_lines(lines, expected):
    method = LSA(dim=2, eigenvalue=1, min_count=1, lines_per_document=lines)
    method.start(corpus_of(LINES, "stream"), 0)
    matrix = method.counts().to_dense()
    indices = method.counts().indices()
    found = [{method.words[w] for w, d in indices.T.tolist() if d == n} for n in range(matrix.shape[1])]
    assert found == expected


@pytest.mark.parametrize(
    "method",
    [
        PPMI(dim=2, eigenvalue=0.5, min_count=1, window=2, weighting="flat", smoothing=0.75, shift=1),
        LSA(dim=2, eigenvalue=1, min_count=1, lines_per_document=1),
    ],
)
def test_two_topics_are_distinguished(method):
    corpus: Corpus = two_topics()
    method.start(corpus, 0)
    method.step(0)
    unit = torch.nn.functional.normalize(method.vectors())
    of_first = torch.tensor([word.startswith("a") for word in method.words])
    cosines = unit @ unit.T
    same = of_first[:, None] == of_first
    assert cosines[same].min() > 0.8
    assert cosines[~same].max() < 0.3


def test_the_vocabulary_may_have_words_that_the_text_lacks():
    corpus = corpus_of(["x y", "y x"], "sentence")
    corpus = Corpus("toy", "sentence", Vocabulary([*corpus.vocabulary.words, "z"]), corpus.splits, {})
    assert WordText.of(corpus, 1).words == ["x", "y"]
