"""Log-linear n-grams against a dense softmax over dictionaries of features, and their optimum against scipy's."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from scipy.optimize import minimize
from torch import Tensor

from lmzoo import CONFIGS
from lmzoo.corpus import Corpus
from lmzoo.errors import UserError
from lmzoo.loglinear import backoff_table, log_likelihood, ngram_levels
from lmzoo.models.loglinear import LogLinear
from lmzoo.ngram_counts import count_ngrams
from lmzoo.owlqn import minimise
from lmzoo.perplexity import score
from lmzoo.registry import models

V = 5  # <eos> and four words, the last rarely seen
BOS = -1
OPTIONS = {"order": 3, "l2": [0.1, 5.0], "l1": [0.0], "tolerance": 1e-7, "max_iterations": 300}

lines = st.lists(st.lists(st.integers(1, V - 1), max_size=6), min_size=1, max_size=6)


def stream(lines: list[list[int]]) -> Tensor:
    return torch.tensor([word for line in lines for word in [*line, 0]])


class Dense:
    """The same model with a (positions, V, features) matrix and no recursion."""

    def __init__(self, tokens: Tensor, order: int):
        self.order = order
        self.positions, history = [], (BOS,)
        for word in tokens.tolist():
            self.positions.append((history, word))
            history = (BOS,) if word == 0 else (*history, word)
        suffixes = {g for h, w in self.positions for g in self.suffixes(h, w)} | {(w,) for w in range(V)}
        # by length, then as lmzoo numbers them: <s> and </s> are both 0
        self.features = sorted(suffixes, key=lambda g: (len(g), [max(word, 0) for word in g]))
        index = {g: i for i, g in enumerate(self.features)}
        self.matrix = torch.zeros(len(self.positions), V, len(index), dtype=torch.float64)
        for t, (h, _) in enumerate(self.positions):
            for w in range(V):
                for g in self.suffixes(h, w):
                    if g in index:
                        self.matrix[t, w, index[g]] = 1

    def suffixes(self, history: tuple[int, ...], word: int) -> list[tuple[int, ...]]:
        whole = (*history, word)
        return [whole[-n:] for n in range(1, min(self.order, len(whole)) + 1)]

    def log_likelihood(self, weights: Tensor) -> Tensor:
        said = torch.tensor([word for _, word in self.positions])
        return (self.matrix @ weights).log_softmax(1).gather(1, said[:, None]).sum()


def levels_of(tokens: Tensor, order: int):
    levels = ngram_levels(count_ngrams(tokens, V, order))
    return levels, [len(level.counts) for level in levels]


def draw(size: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(size))


@settings(deadline=None)
@given(lines, st.integers(1, 4), st.sampled_from([0.1, 1.0, 4.0]))
def test_likelihood_and_gradient_are_the_dense_softmax_s(lines: list[list[int]], order: int, scale: float):
    tokens = stream(lines)
    dense = Dense(tokens, order)
    levels, sizes = levels_of(tokens, order)
    assert sum(sizes) == len(dense.features)
    weights = draw(sum(sizes), scale).requires_grad_()
    expected = dense.log_likelihood(weights)
    expected.backward()
    value, gradient = log_likelihood(levels, weights.detach().split(sizes))
    assert value == pytest.approx(float(expected.detach()), rel=1e-9, abs=1e-9)
    torch.testing.assert_close(torch.cat(gradient), weights.grad, rtol=1e-9, atol=1e-9)


def test_gradient_is_the_finite_difference(corpus: Corpus):
    tokens, order, types = corpus.train, 4, len(corpus.vocabulary)
    levels = ngram_levels(count_ngrams(tokens, types, order))
    sizes = [len(level.counts) for level in levels]
    weights = draw(sum(sizes), 0.5)
    value, gradient = log_likelihood(levels, weights.split(sizes))
    direction = draw(sum(sizes) + 1)[:-1]
    direction /= direction.norm()
    near, far = (
        [log_likelihood(levels, (weights + sign * step * direction).split(sizes))[0] for sign in (1, -1)]
        for step in (1e-3, 2e-3)
    )
    slope = (8 * (near[0] - near[1]) - (far[0] - far[1])) / 12e-3  # error of order step^4
    assert slope == pytest.approx(float(torch.cat(gradient) @ direction), abs=1e-9 * abs(value))


@settings(deadline=None)
@given(lines, st.integers(1, 4))
def test_the_backoff_table_is_the_dense_softmax(lines: list[list[int]], order: int):
    tokens = stream(lines)
    dense = Dense(tokens, order)
    orders = count_ngrams(tokens, V, order)
    sizes = [len(grams.keys) for grams in orders]
    weights = draw(sum(sizes))
    table = backoff_table(orders, weights.split(sizes), V)
    assert table.order == max(n for n, size in enumerate(sizes, start=1) if size)
    scores = table.score(torch.cat([tokens.new_zeros(order - 1), tokens])[None], order - 1)
    expected = (dense.matrix @ weights).log_softmax(1)
    said = torch.tensor([word for _, word in dense.positions])
    torch.testing.assert_close(scores[0].double(), expected.gather(1, said[:, None])[:, 0], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("l2", "l1"), [(0.3, 0.0), (0.05, 0.4), (0.0, 0.7)])
def test_the_optimum_is_scipy_s(corpus: Corpus, l2: float, l1: float):
    tokens = torch.cat([corpus.train[:300] % V, torch.tensor([0])])
    dense = Dense(tokens, 3)
    levels, sizes = levels_of(tokens, 3)
    K = sum(sizes)

    def dense_objective(halves: np.ndarray) -> tuple[float, np.ndarray]:
        """Of λ = positive half - negative half, both at least 0, which makes |λ| smooth."""
        both = torch.tensor(halves, requires_grad=True)
        weights = both[:K] - both[K:]
        value = l2 / 2 * (weights**2).sum() + l1 * both.sum() - dense.log_likelihood(weights)
        value.backward()
        return float(value.detach()), both.grad.numpy()

    limits = {"ftol": 1e-15, "gtol": 1e-8, "maxiter": 20_000, "maxfun": 20_000}
    expected = minimize(
        dense_objective, np.zeros(2 * K), jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * K), options=limits
    )

    def objective(weights: Tensor) -> tuple[float, Tensor]:
        value, gradient = log_likelihood(levels, weights.split(sizes))
        return l2 / 2 * float(weights @ weights) - value, l2 * weights - torch.cat(gradient)

    curvature = torch.cat([level.counts for level in levels]).clamp(min=0.1)
    start = torch.zeros(K, dtype=torch.float64)
    found = minimise(
        objective, start, l1=torch.full_like(start, l1), curvature=curvature, tolerance=1e-13, max_iterations=5000
    )
    assert found.converged
    assert found.value == pytest.approx(expected.fun, rel=1e-6)
    _, gradient = objective(found.x)
    zero = found.x == 0
    assert (gradient[zero].abs() <= l1 + 1e-3).all()
    torch.testing.assert_close(gradient[~zero], -l1 * found.x[~zero].sign(), atol=2e-3, rtol=0)
    assert bool(zero.any()) == (l1 > 0)


def test_minimise_finds_a_known_minimum():
    """Separable: the minimum of a/2 x² - b x + l1 |x| is b shrunk by l1, over a."""
    a, b = draw(50).exp(), draw(51)[:50]
    l1 = torch.linspace(0, 1, 50, dtype=torch.float64)
    found = minimise(
        lambda x: (float(a @ x**2) / 2 - float(b @ x), a * x - b),
        torch.zeros_like(a),
        l1=l1,
        curvature=torch.ones_like(a),
        tolerance=1e-15,
        max_iterations=500,
    )
    expected = b.sign() * (b.abs() - l1).clamp(min=0) / a
    torch.testing.assert_close(found.x, expected, atol=1e-6, rtol=0)
    assert torch.equal(found.x == 0, expected == 0)


def test_training_goes_from_uniform_to_below_the_unigrams(corpus: Corpus):
    model, unigrams = (
        LogLinear(vocabulary_size=len(corpus.vocabulary), **OPTIONS | changed)
        for changed in ({"l1": [0.0, 0.5]}, {"order": 1, "l2": [0.1]})
    )
    assert score(model, corpus.splits["valid"], "sentence").perplexity == pytest.approx(model.vocabulary_size, rel=1e-4)
    model.estimate(corpus)
    unigrams.estimate(corpus)
    trained, alone = (score(m, corpus.splits["valid"], "sentence").perplexity for m in (model, unigrams))
    assert trained < alone < model.vocabulary_size


@pytest.mark.parametrize("option", ["l2", "l1"])
def test_strengths_are_for_each_order_the_last_for_all_higher(option: str):
    for strengths, expected in (([1.0, 2.0], [1.0, 2.0, 2.0]), ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0])):
        assert getattr(LogLinear(vocabulary_size=V, **OPTIONS | {option: strengths}), option) == expected
    with pytest.raises(UserError, match=rf"model\.{option}"):
        LogLinear(vocabulary_size=V, **OPTIONS | {option: []})


@pytest.mark.slow
def test_penn_treebank_s_published_perplexity_is_reached(ptb: Corpus):
    options = OmegaConf.to_container(OmegaConf.load(CONFIGS / "model" / "loglinear.yaml"))
    model = models.build(options, vocabulary_size=len(ptb.vocabulary))
    model.estimate(ptb)
    assert score(model, ptb.splits["test"], "sentence").perplexity < 142.1
