"""Two models on one text: the bootstrap over sentences, and the words they differ on."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.signal import lfilter

from lmzoo.protocol.difference import EDGES, block_length, bootstrap, by_frequency, by_word

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


def autoregressive(phi: float, lines: int, seed: int) -> torch.Tensor:
    """(lines,) x_t = phi x_{t-1} + noise of variance 1."""
    noise = np.random.default_rng(seed).normal(size=lines + 100)
    return torch.from_numpy(lfilter([1], [1, -phi], noise)[100:])


@pytest.mark.parametrize("phi", [0.3, 0.5, 0.7])
def test_a_block_has_the_best_length_of_an_autoregression(phi: float):
    n = 4_000  # G = 2 phi / (1 - phi)^2, g(0) = (1 + phi) / (1 - phi), both in units of the variance
    best = (3 / 2 * (2 * phi / (1 - phi**2)) ** 2 * n) ** (1 / 3)
    lengths = [block_length(autoregressive(phi, n, seed)) for seed in range(20)]
    assert sum(lengths) / 20 == pytest.approx(best, rel=0.1)


def test_lines_that_are_unlike_their_neighbours_are_blocks_of_their_own():
    lengths = [block_length(autoregressive(0.0, n, n)) for n in (1, 2, 3, 10, 100, 3761)]
    assert lengths == [1] * 6
    assert block_length(torch.zeros(50).double()) == 1


def test_the_interval_has_the_difference_where_lines_are_like_their_neighbours():
    """Of lines drawn one by one the interval is half as wide, and misses in 43% of all texts."""
    tokens, true = torch.tensor([1, 0]).repeat(600), math.exp(2) - math.exp(2.05)
    hit = 0
    for seed in range(60):
        a = -2 + torch.zeros(1200).double()
        b = a - 0.05 + 0.1 * autoregressive(0.7, 600, seed).repeat_interleave(2)
        found = bootstrap(a, b, tokens, 100, seed)
        hit += found.low <= true <= found.high
    assert hit >= 51  # 57, less what the estimates of a text of 600 lines cost


def test_words_have_the_sum_of_their_differences():
    counts, gains = by_word(A, B, TOKENS, 4)
    assert counts.tolist() == [3, 1, 2, 0]
    assert gains.tolist() == [-0.25 + 0.25 - 0.5, 0.5, 0.5 - 2.0, 0]


def test_gains_by_frequency_are_means_over_the_words_of_a_band():
    frequency = torch.tensor([30, 2, 9])  # of <eos>, 1 and 2: the bands from 30, 1 and 3
    bands = by_frequency(A, B, TOKENS, frequency, block=1, samples=4000, seed=1)
    assert [(band.least, band.end, band.tokens) for band in bands] == [(1, 3, 1), (3, 10, 2), (30, 100, 3)]
    assert [band.gain for band in bands] == pytest.approx([0.5, (0.5 - 2) / 2, (-0.25 + 0.25 - 0.5) / 3])
    rarest, _, _ = bands
    assert (rarest.low, rarest.high) == pytest.approx((0.5, 0.5)), "a single token, and texts without it do not count"


def test_the_interval_of_a_band_is_that_of_all_texts_that_can_be_drawn():
    bands = by_frequency(A, B, TOKENS, torch.tensor([30, 2, 9]), block=1, samples=4000, seed=1)
    ends = [-0.25, 0.25, -0.5]  # the gain on each sentence's <eos>
    texts = sorted(sum(drawn) / 3 for drawn in itertools.product(ends, repeat=3))
    assert bands[-1].low == pytest.approx(texts[0])
    assert bands[-1].high == pytest.approx(texts[-1])


def test_bands_of_words_part_all_frequencies():
    frequency = torch.tensor([0, 1, 2, 3, 9, 10, 29, 30, 10**7])
    tokens = torch.tensor([1, 2, 3, 4, 5, 6, 7, 8, 0])
    bands = by_frequency(torch.zeros(9), torch.zeros(9), tokens, frequency, 1, 2, 0)
    assert [(band.least, band.tokens) for band in bands] == [(0, 1), (1, 2), (3, 2), (10, 2), (30, 1), (EDGES[-1], 1)]
