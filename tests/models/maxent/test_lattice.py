"""Likelihoods and gradients of the lattice against a dense softmax and finite differences."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from maxent_oracle import NGRAMS, TEMPLATES, Dense, columns, draw, features_of, lines, stream, text_of

from lmzoo.corpus import Corpus
from lmzoo.models.maxent.features import attributes, coarse_to_fine, collect, contexts
from lmzoo.models.maxent.lattice import outcome_logprobs


@settings(deadline=None, max_examples=60)
@given(lines, st.sampled_from(TEMPLATES), st.booleans(), st.sampled_from([0.1, 1.0, 2.0]))
def test_likelihood_and_gradient_are_the_dense_softmax_s(
    lines: list[list[int]], templates: tuple[list[str], list[str]], of_class: bool, scale: float
):
    of_class = of_class and not templates[0]
    tokens = stream(lines)
    dense, features = Dense(tokens, *templates, of_class), features_of(tokens, *templates, of_class)
    numbers = dense.numbers(features)
    weights = draw(len(numbers), scale).requires_grad_()
    expected = dense.scorer(tokens)(weights).gather(1, dense.observed(tokens)[:, None])[:, 0]
    upstream = draw(len(tokens) + 1)[1:]  # another weight for each token
    (expected @ upstream).backward()
    ours = weights.detach()[numbers].requires_grad_()
    logprobs = outcome_logprobs(ours, features.lattice(*text_of(tokens, of_class)))
    (logprobs @ upstream).backward()
    torch.testing.assert_close(logprobs, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(ours.grad, weights.grad[numbers], rtol=1e-9, atol=1e-9)


def test_gradient_is_the_finite_difference(corpus: Corpus):
    tokens, types = corpus.splits["train"], len(corpus.vocabulary)
    x = attributes(contexts(tokens, 4), types)
    templates = coarse_to_fine([(), *(columns(text.split()) for text in [*NGRAMS, "w2"])])
    features, counts, _ = collect(x, tokens, templates, types + 1, types)
    lattice = features.lattice(x, tokens)
    weights = draw(len(counts), 0.5).requires_grad_()
    value = outcome_logprobs(weights, lattice).sum()
    value.backward()
    direction = draw(len(counts) + 1)[:-1]
    direction /= direction.norm()
    near, far = (
        [float(outcome_logprobs(weights.detach() + sign * step * direction, lattice).sum()) for sign in (1, -1)]
        for step in (1e-3, 2e-3)
    )
    slope = (8 * (near[0] - near[1]) - (far[0] - far[1])) / 12e-3  # error of order step^4
    assert slope == pytest.approx(float(weights.grad @ direction), abs=1e-9 * abs(float(value.detach())))
