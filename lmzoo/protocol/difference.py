"""Significance of the difference of two models on a text."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.corpus.lines import line_sums


@dataclass(frozen=True)
class Interval:
    """The difference of two perplexities, its 95% confidence interval, and the block length in lines."""

    difference: float
    low: float
    high: float
    block: int


def bootstrap(a: Tensor, b: Tensor, tokens: Tensor, samples: int, seed: int) -> Interval:
    """perplexity(a) - perplexity(b) by the paired circular block bootstrap over lines.

    Texts are drawn from blocks of consecutive lines with replacement, the first line following the last (Politis &
    Romano 1992, "A circular block-resampling procedure for stationary data"; blocks are due to Künsch, 1989), and both
    models are evaluated on the same lines; the interval is from percentiles 2.5 to 97.5. Blocks are needed since errors
    of neighbouring lines are correlated. Their length is `block_length` of the lines' influences on the difference. If
    it is 1, this is the bootstrap over sentences of Koehn (2004), "Statistical significance tests for machine
    translation evaluation".

    Args:
        a, b: (N,) log-probabilities of the tokens under each model, in nats.
        tokens: (N,) the text, every line closed by `<eos>`.
    """
    columns = torch.stack([a.cpu().double(), b.cpu().double(), torch.ones(len(tokens)).double()], 1)
    sums = line_sums(columns, tokens)  # (n, 3)
    block = block_length(_shares(sums))
    found = torch.tensor([_difference(sums[lines]) for lines in _drawn(len(sums), block, samples, seed)]).double()
    low, high = found.quantile(_ENDS).tolist()
    return Interval(_difference(sums), low, high, block)


_ENDS = torch.tensor([0.025, 0.975]).double()


def _drawn(n: int, block: int, samples: int, seed: int) -> Iterator[Tensor]:
    """Draw line indices (n,) of ``samples`` texts of n lines, in blocks."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(samples):
        begins = torch.randint(n, (math.ceil(n / block), 1), generator=generator)
        yield (begins + torch.arange(block)).flatten()[:n] % n


def block_length(series: Tensor) -> int:
    """The optimal block length of the circular block bootstrap of a mean.

    Politis & White (2004), "Automatic block-length selection for the dependent bootstrap", section 3, with the constant
    of Patton, Politis & White (2009). Autocorrelations are used up to twice the lag after which five or more in a row
    are insignificant; if all are, it is 1.

    Args:
        series: (n,) float64.
    """
    n = len(series)
    centred, in_a_row = series - series.mean(), max(5, math.ceil(math.sqrt(math.log10(n))))
    most = min(math.ceil(math.sqrt(n)) + in_a_row, n - 1)
    R = torch.stack([centred[: n - lag] @ centred[lag:] for lag in range(most + 1)]) / n
    if not R[0] > 0:
        return 1
    large = (R.abs() >= 2 * math.sqrt(math.log10(n) / n) * R[0]).tolist()
    last = next((lag for lag in range(most) if not any(large[lag + 1 : lag + 1 + in_a_row])), most)
    lags = torch.arange(1, (window := min(2 * last, most)) + 1)
    tapered = (2 - 2 * lags / max(window, 1)).clamp(max=1) * R[lags]  # the taper is flat up to half the window
    spectrum, curvature = R[0] + 2 * tapered.sum(), 2 * (lags * tapered).sum()
    length = (1.5 * (curvature / spectrum) ** 2 * n) ** (1 / 3)
    return max(1, math.ceil(min(float(length), 3 * math.sqrt(n), n / 3)))


def _shares(sums: Tensor) -> Tensor:
    """(n, 3) as in `_difference` -> (n,) first-order influence of each sentence on the difference."""
    mean = sums[:, :2].sum(0) / sums[:, 2].sum()  # (2,) log p per token
    moved = (sums[:, :2] - mean * sums[:, 2:]) * (-mean).exp()  # (n, 2) influences on the perplexities, times -N
    return moved[:, 1] - moved[:, 0]


def _difference(sums: Tensor) -> float:
    """(n, 3) log p under each model and length of each sentence -> the difference of the perplexities."""
    a, b, tokens = sums.sum(0)
    return float((-a / tokens).exp() - (-b / tokens).exp())


def by_word(a: Tensor, b: Tensor, tokens: Tensor, vocabulary_size: int) -> tuple[Tensor, Tensor]:
    """(V,) occurrences of each word in a text, and (V,) Σ log p_a - log p_b over them; see `bootstrap`."""
    counts = tokens.bincount(minlength=vocabulary_size)
    gains = torch.zeros(vocabulary_size).double().index_add(0, tokens, a.cpu().double() - b.cpu().double())
    return counts, gains


EDGES = (0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 1_000_000)
"""The lower bounds of the bands, in occurrences in the training text."""


@dataclass(frozen=True)
class FrequencyBand:
    """Words of similar frequency in the training text.

    Attributes:
        least: the minimum number of occurrences; all are below ``end``.
        tokens: the number of tokens of the text in the band.
        gain: the mean of log p_a - log p_b over them, in their unit; ``low`` and ``high`` are its 95% interval.
    """

    least: int
    end: float
    tokens: int
    gain: float
    low: float
    high: float


def by_frequency(
    a: Tensor, b: Tensor, tokens: Tensor, frequency: Tensor, block: int, samples: int, seed: int
) -> list[FrequencyBand]:
    """The gain of one model over another by word frequency, the rarest band first.

    Intervals are those of `bootstrap`, for all bands by blocks of its length.

    Args:
        a, b, tokens: as in `bootstrap`.
        frequency: (V,) occurrences of each word in the training text.
        block: `Interval.block`.
    """
    bands = torch.bucketize(frequency.cpu(), torch.tensor(EDGES[1:]), right=True)[tokens]
    one_hot, gains = torch.nn.functional.one_hot(bands, len(EDGES)).double(), a.cpu().double() - b.cpu().double()
    sums = line_sums(torch.cat([one_hot * gains[:, None], one_hot], 1), tokens)  # (n, 2 · bands)

    def means(sums: Tensor) -> Tensor:
        gains, numbers = sums.sum(0).chunk(2)
        return gains / numbers

    drawn = torch.stack([means(sums[lines]) for lines in _drawn(len(sums), block, samples, seed)])
    figures = torch.stack([means(sums), *drawn.nanquantile(_ENDS, 0)], 1).tolist()
    numbers = one_hot.sum(0).int().tolist()
    ends = [*EDGES[1:], math.inf]
    return [
        FrequencyBand(*row, *of_band) for *row, of_band in zip(EDGES, ends, numbers, figures, strict=True) if row[-1]
    ]
