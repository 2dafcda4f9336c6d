"""Scores beside dense formulas, written over matrices of counts, and sums over all words."""

import itertools
import math
import random
from collections import Counter

import numpy as np
import pytest

from lmzoo.core.errors import UserError
from lmzoo.retrieval.index import Index, Scores, ranked
from lmzoo.retrieval.likelihood import RankingOptions, log_likelihood, probability, relevance_model, score

PLAIN = {"mu": 3.0, "lambda_": 0.0, "order": 1, "nu": 2.0, "feedback": 0, "terms": 4, "weight": 0.3}


def settings(**changed) -> RankingOptions:
    return RankingOptions(**(PLAIN | changed))


@pytest.fixture(scope="module")
def texts() -> list[list[str]]:
    draw = random.Random(0)
    return [draw.choices("abcde", weights=[5, 4, 3, 2, 1], k=n) for n in (9, 0, 30, 1, 14, 2, 21)]


@pytest.fixture(scope="module")
def index(texts: list[list[str]]) -> Index:
    return Index({f"d{number}": text for number, text in enumerate(texts)})


def count(text: list[str], gram: str) -> int:
    return sum("".join(text[i : i + len(gram)]) == gram for i in range(len(text)))


def likelihood(index: Index, query: list[int], options: RankingOptions) -> np.ndarray:
    """(N,) log p(q|d) of words."""
    return log_likelihood(index, Counter((word,) for word in query), options, np.arange(len(index.names)))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_counts_are_those_of_a_search(index: Index, texts: list[list[str]], n: int):
    for gram in map("".join, itertools.product("abcde", repeat=n)):
        numbers = index.numbers(gram)
        assert index.count(numbers).tolist() == [count(text, gram) for text in texts]
        assert index.count(numbers, followed=True).tolist() == [count(text[:-1], gram) for text in texts]


@pytest.mark.parametrize(("mu", "lam"), [(3.0, 0.0), (0.0, 0.4), (3.0, 0.4), (0.5, 1.0)])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_probabilities_sum_to_one_where_a_document_has_words(index: Index, mu: float, lam: float, order: int):
    for history in itertools.product(range(5), repeat=order - 1):
        total = sum(probability(index, [*history, w], settings(mu=mu, lambda_=lam)) for w in range(5))
        np.testing.assert_allclose(total[index.lengths > 0], 1)


def dense(texts: list[list[str]], query: str, mu: float, lam: float) -> np.ndarray:
    """(N,) log p(q|d), from a matrix of counts."""
    C = np.array([[text.count(word) for word in "abcde"] for text in texts])  # (N, V)
    background = C.sum(0) / C.sum()
    seen = np.array([query.count(word) for word in "abcde"])
    p = (1 - lam) * (C + mu * background) / (C.sum(1, keepdims=True) + mu) + lam * background
    return np.log(p) @ seen


@pytest.mark.parametrize(("mu", "lam"), [(3.0, 0.0), (700.0, 0.0), (3.0, 0.4), (1.0, 0.9)])
def test_unigrams_have_the_dense_formula(index: Index, texts: list[list[str]], mu: float, lam: float):
    found = likelihood(index, index.numbers("abbe"), settings(mu=mu, lambda_=lam))
    np.testing.assert_allclose(found, dense(texts, "abbe", mu, lam))


@pytest.mark.parametrize(("mu", "lam"), [(200.0, 0.0), (0.0, 0.4), (1e-6, 0.0), (50.0, 0.7), (3.0, 1.0)])
def test_documents_that_have_a_word_are_visited_to_the_sum_over_all(mu: float, lam: float):
    draw = random.Random(1)
    words = [str(int(draw.paretovariate(0.7))) for _ in range(3000)]
    index = Index({f"d{i}": words[i * i : (i + 1) ** 2] for i in range(54)} | {"empty": []})
    query = index.numbers(["1", "2", "2", "17", "5"])
    for options in (settings(mu=mu, lambda_=lam), settings(mu=mu + 1, lambda_=lam)):
        expected = sum(np.log(probability(index, [word], options)) for word in query)
        np.testing.assert_allclose(likelihood(index, query, options), expected, rtol=0, atol=1e-12)


def test_postings_have_each_document_with_a_word_once(index: Index):
    for word in range(5):
        documents, counts, which = index.postings([word])
        assert not which.any()
        of_all = index.count([word])
        assert documents.tolist() == np.flatnonzero(of_all).tolist()
        assert counts.tolist() == of_all[documents].tolist()


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 9])
def test_the_first_of_equal_documents_is_ranked_first(index: Index, depth: int):
    scores = Scores(np.array([0, 2, 3, 4, 6]), np.array([2.0, 3.0, 2.0, 2.0, 4.0]))
    assert [*ranked(index, scores, depth)] == ["d6", "d2", "d0", "d3", "d4"][:depth]


def test_a_ranking_visits_postings_and_sorts_its_first_documents_alone(monkeypatch: pytest.MonkeyPatch):
    index = Index({f"d{i}": ["common", "rare"] if i < 7 else ["common"] for i in range(500)})
    query, sizes, sort = index.numbers(["rare", "common"]), [], np.argsort
    monkeypatch.setattr(Index, "count", lambda *_: pytest.fail("all documents are counted"))
    monkeypatch.setattr(np, "argsort", lambda scores, **how: sizes.append(len(scores)) or sort(scores, **how))
    assert list(ranked(index, score(index, query, settings(), np.zeros(500)), 5)) == [f"d{i}" for i in range(5)]
    assert sizes == [7]


def test_jelinek_mercer_by_hand():
    index = Index({"one": "aab", "two": "b"})
    found = likelihood(index, index.numbers("ab"), settings(mu=0.0, lambda_=0.25))
    one = (0.75 * 2 / 3 + 0.25 * 2 / 4) * (0.75 * 1 / 3 + 0.25 * 2 / 4)
    two = (0.75 * 0 / 1 + 0.25 * 2 / 4) * (0.75 * 1 / 1 + 0.25 * 2 / 4)
    assert np.exp(found).tolist() == pytest.approx([one, two])


def test_trigrams_by_hand():
    index = Index({"one": "abcabab", "two": "c"})
    a, b, c = ((n + 2 * m / 8) / (7 + 2) for n, m in ((3, 3), (3, 3), (1, 2)))  # p(w|one) with μ = 2
    b_a = (3 + 10 * b) / (3 + 10)
    c_b = (1 + 10 * c) / (2 + 10)  # the last b has no word after it
    c_ab = (1 + 10 * c_b) / (2 + 10)
    found = score(index, index.numbers("abc"), settings(mu=2.0, order=3, nu=10.0), np.zeros(2))
    assert found.values[0] == pytest.approx(math.log(a * b_a * c_ab))


def test_documents_without_a_word_of_the_query_are_left_out(index: Index, texts: list[list[str]]):
    found = score(index, index.numbers("e"), settings(), np.zeros(7))
    assert found.documents.tolist() == [d for d in range(7) if "e" in texts[d]]
    assert list(ranked(index, found, 100)) == [f"d{d}" for d in found.documents[np.argsort(-found.values)]]
    assert len(ranked(index, found, 2)) == 2
    assert ranked(index, score(index, [], settings(feedback=2), np.zeros(7)), 10) == {}


def test_a_prior_is_added(index: Index):
    prior = np.log(np.arange(1.0, 8))
    query = index.numbers("ab")
    expected = likelihood(index, query, settings()) + prior
    for options in (settings(), settings(feedback=1, weight=1.0)):
        found = score(index, query, options, prior)
        np.testing.assert_allclose(found.values, expected[found.documents])


def test_feedback_has_the_dense_formula(index: Index, texts: list[list[str]]):
    first, prior = dense(texts, "ac", 3.0, 0.0), np.log(np.array([1, 1, 2, 1, 1, 1, 3.0]))
    asked = [bool({"a", "c"} & set(text)) for text in texts]
    best = sorted((d for d in range(7) if asked[d]), key=lambda d: -(first + prior)[d])[:3]
    r = {w: sum(math.exp((first + prior)[d]) * texts[d].count(w) / len(texts[d]) for d in best) for w in "abcde"}
    kept = sorted(r, key=lambda word: -r[word])[:4]
    r = {word: r[word] / sum(r[word] for word in kept) for word in kept}
    found = relevance_model(index, Scores(np.array(best), (first + prior)[best]), 4)
    assert {word: found.get(index.words[word], 0) for word in kept} == pytest.approx(r)
    expected = 0.3 * first + 0.7 * 2 * sum(r[word] * dense(texts, word, 3.0, 0.0) for word in kept) + prior
    scores = score(index, index.numbers("ac"), settings(feedback=3), prior)
    shown = [bool(set(text) & {"a", "c", *kept}) for text in texts]
    assert scores.documents.tolist() == np.flatnonzero(shown).tolist()
    np.testing.assert_allclose(scores.values, expected[shown])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mu": -1.0}, "--mu=-1.0: must be at least 0"),
        ({"mu": math.nan}, "--mu=nan: must be a number"),
        ({"mu": 0.0}, "gives unseen words no probability"),
        ({"lambda_": 1.5}, "--lambda=1.5: must be at most 1"),
        ({"nu": 0.0}, "--nu=0.0: must be at least 1e-06"),
        ({"order": 0}, "--order=0: must be at least 1"),
        ({"terms": 0}, "--terms=0: must"),
        ({"feedback": -1}, "--feedback=-1: must"),
        ({"weight": math.inf}, "--weight=inf: must be at most 1"),
    ],
)
def test_impossible_settings_are_refused(changed: dict, message: str):
    with pytest.raises(UserError, match=message):
        settings(**changed)
