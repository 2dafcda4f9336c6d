"""Two models on one text: the bootstrap over sentences, and the words they differ on."""

import itertools
import math

import pytest
import torch

from lmzoo.protocol.difference import bootstrap, by_word

TOKENS = torch.tensor([1, 2, 0, 2, 0, 0])
A = torch.tensor([-1.0, -2.0, -0.5, -3.0, -0.25, -1.5])
B = torch.tensor([-1.5, -2.5, -0.25, -1.0, -0.5, -1.0])
SENTENCES = [(-3.5, -4.25, 3), (-3.25, -1.5, 2), (-1.5, -1.0, 1)]
"""Sums of A and B, and the length, of each sentence."""


def difference(*sentences: tuple[float, float, int]) -> float:
    a, b, tokens = (sum(column) for column in zip(*sentences, strict=True))
    return math.exp(-a / tokens) - math.exp(-b / tokens)


def test_the_interval_is_that_of_all_texts_that_can_be_drawn():
    texts = sorted(difference(*drawn) for drawn in itertools.product(SENTENCES, repeat=3))  # 27, equally likely
    found = bootstrap(A, B, TOKENS, samples=4000, seed=1)
    assert found.difference == pytest.approx(difference(*SENTENCES))
    assert found.low == pytest.approx(texts[0])  # the lowest has probability 1/27, more than 2.5%
    assert found.high == pytest.approx(texts[-1])


def test_the_interval_shrinks_with_the_square_root_of_the_text_and_follows_the_seed():
    torch.manual_seed(0)
    tokens = torch.tensor([1, 2, 3, 0]).repeat(400)
    a = -torch.rand(len(tokens)).double()
    b = a - 0.1 * torch.randn(len(tokens)).double()
    found = bootstrap(a, b, tokens, 500, seed=0)
    error = ((-a.mean()).exp() * (a - b)).view(-1, 4).mean(1).std() / 20  # the delta method, 400 sentences
    assert found.high - found.low == pytest.approx(2 * 1.96 * float(error), rel=0.15)
    assert bootstrap(a, b, tokens, 500, seed=0) == found != bootstrap(a, b, tokens, 500, seed=1)


def test_words_have_the_sum_of_their_differences():
    counts, gains = by_word(A, B, TOKENS, 4)
    assert counts.tolist() == [3, 1, 2, 0]
    assert gains.tolist() == [-0.25 + 0.25 - 0.5, 0.5, 0.5 - 2.0, 0]
