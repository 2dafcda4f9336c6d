"""Labels of texts by n-grams, beside counts by hand and the equations."""

import sys
from typing import Any

import numpy as np
import pytest
import torch

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import labellers
from lmzoo.labels.ngrams import NGramLabeller

TEXTS = [Sentence(words.split(), [label], []) for words, label in [
    ("a a b", "x"), ("b c", "y"), ("a c", "x"), ("c c", "y"), ("a b c", "y"),
]]  # fmt: skip


def started(name: str, texts: list[Sentence] = TEXTS, **options: Any) -> NGramLabeller:
    labeller: NGramLabeller = labellers.build(defaults("labeller", name) | options)
    labeller.start(texts, seed=0)
    return labeller


def presence(labeller: NGramLabeller, texts: list[Sentence]) -> np.ndarray:
    return np.array([[gram in f" {' '.join(s.words)} ".split() for gram in labeller.grams] for s in texts], float)


def test_naive_bayes_is_counts_by_hand():
    model = started("naive_bayes", order=2, alpha=0.5)
    assert list(model.grams) == ["a", "b", "a a", "a b", "c", "b c", "a c", "c c"]
    # x has a 2, b 1, a a 1, a b 1, c 1, a c 1: 7 in all, an n-gram counting once a text
    expected = torch.tensor([2, 1, 1, 1, 1, 0, 1, 0]).add(0.5).div(7 + 8 * 0.5).log()
    assert torch.allclose(model.weights[:, 0], expected)
    assert torch.allclose(model.bias, torch.tensor([2 / 5, 3 / 5]).log())


def test_beginnings_of_longer_words_count_once_and_are_no_words():
    texts = [Sentence(words.split(), [label], []) for words, label in [("abc abd ab", "x"), ("abcd", "y")]]
    model = started("naive_bayes", texts, order=1, prefixes=[2, 3], alpha=1.0)
    assert list(model.grams) == ["abc", "abd", "ab", "ab ", "abcd", "abc "]
    expected = torch.tensor([2, 2, 2, 2, 1, 1]).div(4 + 6).log()
    assert torch.allclose(model.weights[:, 0], expected)
    assert model.label([Sentence(["abce"], [], [])]) == [["y"]]  # "ab " 2/10 and "abc " 1/10; 2/9 and 2/9


@pytest.mark.parametrize("third", ["y", "z"])
def test_the_gradient_of_logistic_regression_is_zero(third: str):
    texts = [*TEXTS[:3], Sentence(["c"], [third], []), *TEXTS[3:]]
    model = started("logistic_regression", texts, order=1, l2=0.7)
    X = torch.from_numpy(presence(model, texts)).float()
    gold = torch.tensor([model.labels.index(s.labels[0]) for s in texts])
    w, b = model.weights.clone().requires_grad_(), model.bias.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(X @ w + b, gold, reduction="sum")
    free = slice(1, None) if third == "y" else slice(None)  # of two labels the first has no weights
    (loss + 0.35 * w[:, free].square().sum()).backward()
    assert w.grad is not None
    assert b.grad is not None
    assert w.grad[:, free].abs().max() < 1e-3
    assert b.grad[free].abs().max() < 1e-3
    assert model.weights.abs().max() > 0.1


def test_nbsvm_minimises_the_squared_hinge_of_ratios():
    model = started("nbsvm", order=1, beta=1.0, cost=0.5)
    X, sign = presence(model, TEXTS), np.array([1 if s.labels[0] == "y" else -1 for s in TEXTS])
    p, q = 1 + X[sign > 0].sum(0), 1 + X[sign < 0].sum(0)
    r = np.log(p / p.sum()) - np.log(q / q.sum())
    v, b = model.weights[:, 1].numpy() / r, float(model.bias[1])
    slack = np.maximum(0, 1 - sign * (X * r @ v + b))
    assert np.allclose(v, 2 * 0.5 * (slack * sign) @ (X * r), atol=5e-3)
    assert abs(v).max() > 0.05
    mean = started("nbsvm", order=1, beta=0.0, cost=0.5).weights[:, 1].numpy()
    assert np.allclose(mean, r * abs(v).mean(), atol=1e-5)


LENGTHS = {"a": 4, "b": 6, "c": 8, "d": 12, "e": 16, "f": 20}


def drawn(sizes: list[int], seed: int) -> list[Sentence]:
    """Texts of six labels, each with its own number of words, of which three in ten are words of the label alone."""
    rng = np.random.default_rng(seed)

    def word(label: str) -> str:
        return f"{label}{min(rng.zipf(1.5), 200)}" if rng.random() < 0.3 else f"w{min(rng.zipf(1.3), 2000)}"

    rows = [label for label, n in zip(LENGTHS, sizes, strict=True) for _ in range(n)]
    return [Sentence([word(label) for _ in range(LENGTHS[label])], [label], []) for label in rows]


def test_nbsvm_has_six_labels_on_one_scale():
    train, test = drawn([300, 250, 200, 150, 100, 15], 0), drawn([100, 80, 70, 50, 30, 10], 1)

    def accuracy(labeller: NGramLabeller) -> float:
        return float(np.mean([found == text.labels for found, text in zip(labeller.label(test), test, strict=True)]))

    logistic = accuracy(started("logistic_regression", train, order=1))
    machines = started("nbsvm", train, order=1, beta=1.0)
    X = presence(machines, train)
    before = X @ machines.weights.numpy() + machines.bias.numpy()
    for beta in (0.0, 0.25):
        model = started("nbsvm", train, order=1, beta=beta)
        scores = X @ model.weights.numpy() + model.bias.numpy()
        assert np.allclose(scores.mean(0), before.mean(0), atol=1e-4)
        assert np.allclose(scores.std(0), before.std(0), atol=1e-4)
        assert accuracy(model) > logistic - (0.05 if beta == 0 else 0)


def test_nbsvm_has_two_labels_as_in_the_paper():
    """Each machine's b is kept as it is."""
    for beta in (0.0, 0.25):
        model, machines = (started("nbsvm", order=1, beta=value) for value in (beta, 1.0))
        assert torch.equal(model.bias, machines.bias)
        r = started("nbsvm", order=1, beta=0.0).weights
        mixed = r * (1 - beta) + beta * machines.weights
        assert torch.allclose(model.weights, mixed, atol=1e-6)


def test_mistakes_are_reported(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UserError, match="all texts of train have the label x; there must be two"):
        started("naive_bayes", TEXTS[:1])
    monkeypatch.setitem(sys.modules, "sklearn.naive_bayes", None)
    with pytest.raises(
        UserError, match="labeller needs scikit-learn, which is not installed; pip install scikit-learn"
    ):
        started("naive_bayes")
