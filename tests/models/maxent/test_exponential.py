"""Exponential models against a dense softmax, their optimum against scipy's, and their checkpoints."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from maxent_oracle import NGRAMS, TEMPLATES, Dense, V, draw, exponential, lines, possible, stream, text_of
from scipy.optimize import minimize
from torch import Tensor

from lmzoo.corpus import Corpus


@settings(deadline=None, max_examples=60)
@given(lines, lines, st.sampled_from(TEMPLATES))
def test_distributions_over_contexts_never_seen_are_the_dense_softmax_s(
    lines: list[list[int]], others: list[list[int]], templates: tuple[list[str], list[str]]
):
    dense, tokens = Dense(stream(lines), *templates), stream(others)
    model = exponential(*templates)
    model.collect(text_of(stream(lines)), possible())
    numbers = dense.numbers(model.features)
    weights = draw(len(numbers))
    model.weights.data = weights[numbers]
    x, y = text_of(tokens)
    logprobs = model.predict(x)
    expected = dense.scorer(tokens)(weights)
    torch.testing.assert_close(logprobs, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(logprobs.exp().sum(1), torch.ones(len(x), dtype=torch.float64), rtol=1e-9, atol=0)
    torch.testing.assert_close(model(x, y), expected.gather(1, y[:, None])[:, 0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("base", "templates", "l2", "l1"),
    [
        ([], NGRAMS[:2], 0.3, 0.0),
        ([], NGRAMS[:2], 0.05, 0.4),
        ([], NGRAMS[:2], 0.0, 0.7),
        (["c0"], ["w1", "c1 w2"], 0.3, 0.4),
    ],
)
def test_the_optimum_is_scipy_s(corpus: Corpus, base: list[str], templates: list[str], l2: float, l1: float):
    tokens = torch.cat([corpus.splits["train"][:200] % V, torch.tensor([0])])
    dense = Dense(tokens, base, templates)
    scorer, observed, K = dense.scorer(tokens), dense.observed(tokens)[:, None], len(dense.index)

    def smooth(weights: Tensor) -> Tensor:
        return l2 / 2 * (weights**2).sum() - scorer(weights).gather(1, observed).sum()

    def of_halves(halves: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective at λ = positive half - negative half, both at least 0, which makes |λ| smooth."""
        both = torch.tensor(halves, requires_grad=True)
        value = smooth(both[:K] - both[K:]) + l1 * both.sum()
        value.backward()
        return float(value.detach()), both.grad.numpy()

    limits = {"ftol": 1e-15, "gtol": 1e-8, "maxiter": 20_000, "maxfun": 20_000}
    expected = minimize(
        of_halves, np.zeros(2 * K), jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * K), options=limits
    )
    model = exponential(base, templates, l2=l2, l1=l1)
    model.fit(text_of(tokens), possible(), tolerance=1e-13, max_iterations=5000)
    weights = torch.zeros(K, dtype=torch.float64)
    weights[dense.numbers(model.features)] = model.weights
    weights.requires_grad_()
    value = smooth(weights)
    value.backward()
    assert float(value.detach()) + l1 * float(weights.detach().abs().sum()) == pytest.approx(expected.fun, rel=1e-6)
    zero = weights == 0
    assert (weights.grad[zero].abs() <= l1 + 1e-3).all()
    torch.testing.assert_close(weights.grad[~zero], -l1 * weights.detach()[~zero].sign(), atol=2e-3, rtol=0)
    assert zero.any() or l1 == 0


def test_the_penalty_is_a_token_s_share_of_that_of_all_weights():
    model = exponential([], ["w1", "w1 w2"], l2=0.3, l1=0.4)
    model.collect(text_of(stream([[1, 2], [3]])), possible())
    weights = model.weights.data = draw(len(model.weights))
    of_text = sum(0.3 / 2 * w**2 + 0.4 * abs(w) for w in weights.tolist())
    assert float(model.penalty()) == pytest.approx(of_text / 5)  # with two ends of lines


def test_unigrams_begin_at_their_log_counts_and_longer_features_at_zero():
    model = exponential([], ["w1"])
    model.collect(text_of(stream([[1, 2], [3]])), possible())
    counts = torch.tensor([3.0, 2.0, 2.0, 2.0, 1.0]).double()  # each word is possible once more
    torch.testing.assert_close(model.weights[model.place == 0], counts.log() - counts.log().mean())
    assert not model.weights[model.place > 0].any()


def test_a_checkpoint_with_the_same_features_is_taken():
    trained, fresh = (exponential(["c0"], ["w1", "w1 c3"]) for _ in range(2))
    trained.collect(text_of(stream([[1, 2, 3, 1], [4]])), possible())
    fresh.load_state_dict(trained.state_dict())
    assert torch.equal(fresh.pairs, trained.pairs)
