"""Where two models differ on a text, and how sure the difference is."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID


@dataclass(frozen=True)
class Interval:
    """The difference of two perplexities, and the ends of its 95% confidence interval."""

    difference: float
    low: float
    high: float


def bootstrap(a: Tensor, b: Tensor, tokens: Tensor, samples: int, seed: int) -> Interval:
    """perplexity(a) - perplexity(b) by the paired bootstrap over sentences.

    Percentiles 2.5 and 97.5 of texts drawn from the sentences with replacement; Efron & Tibshirani (1993), chapter 13;
    Koehn (2004), "Statistical significance tests for machine translation evaluation". Both models are measured on the
    same sentences of each text.

    Args:
        a, b: (N,) log-probabilities of the tokens under each model, in nats.
        tokens: (N,) the text, every line closed by `<eos>`.
    """
    ends = (tokens == EOS_ID).long()
    line = ends.cumsum(0) - ends  # (N,) the number of each token's line
    columns = torch.stack([a.double().cpu(), b.double().cpu(), torch.ones(len(tokens)).double()], 1)
    sums = torch.zeros(int(line[-1]) + 1, 3).double().index_add(0, line, columns)  # (n, 3)
    generator = torch.Generator().manual_seed(seed)
    drawn = [_difference(sums[torch.randint(len(sums), (len(sums),), generator=generator)]) for _ in range(samples)]
    low, high = torch.tensor(drawn).double().quantile(torch.tensor([0.025, 0.975]).double()).tolist()
    return Interval(_difference(sums), low, high)


def _difference(sums: Tensor) -> float:
    """(n, 3) log p under either model and length of each sentence -> the difference of the perplexities."""
    a, b, tokens = sums.sum(0)
    return float((-a / tokens).exp() - (-b / tokens).exp())


def by_word(a: Tensor, b: Tensor, tokens: Tensor, vocabulary_size: int) -> tuple[Tensor, Tensor]:
    """How often each word is in a text, and Σ log p_a - log p_b over its occurrences in nats: (V,) and (V,).

    Args:
        a, b, tokens: as in `bootstrap`.
    """
    counts = tokens.bincount(minlength=vocabulary_size)
    gains = torch.zeros(vocabulary_size).double().index_add(0, tokens, a.double().cpu() - b.double().cpu())
    return counts, gains
