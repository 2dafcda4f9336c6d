"""Log-linear n-gram models, normalised exactly at the price of the n-grams seen.

p(w | h) = exp s_h(w) / Z(h), s_h(w) the sum of the weights λ of hw's suffixes, as far as they are features
(Rosenfeld, *A maximum entropy approach to adaptive statistical language modelling*, 1996). Only words
seen after h have a longer suffix after h than after h', which is h without its oldest word, so

    Z(h) = U(h) + Σ_{v seen after h} exp s_h(v),   U(h) = Z(h') - Σ_{v seen after h} exp s_h'(v)

and one pass over the n-grams, shortest first, gives every normaliser; one pass back gives the gradient
(Wu & Khudanpur, *Building a topic-dependent maximum entropy model for very large corpora*, 2002). U(h) is
a difference of sums, hence float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from lmzoo.ngram_counts import NGrams
from lmzoo.ngram_table import NGramTable


@dataclass(frozen=True)
class Level:
    """The features of one suffix length: the K pairs hw of a context h and an outcome w seen after it.

    Of the shortest length, every outcome is listed after every context, seen or not.

    Attributes:
        context: (K,) which of the C contexts h is; ascending.
        suffix: (K,) which pair h'w of the level below; unused in the first.
        shorter: (C,) which context of the level below h' is; unused in the first.
        counts: (K,) how often w comes after h.
        longest: (C,) how many outcomes have h as the longest context that the model regards.
    """

    context: Tensor
    suffix: Tensor
    shorter: Tensor
    counts: Tensor
    longest: Tensor

    def total(self, values: Tensor) -> Tensor:
        """Σ_w values(hw) of each context, (C,)."""
        return _sums(self.context, values, self.longest)


def _sums(group: Tensor, values: Tensor, like: Tensor) -> Tensor:
    """Σ of the (K,) values of each group, as many as ``like`` has."""
    return torch.zeros_like(like).scatter_add_(0, group, values)


def ngram_levels(orders: list[NGrams]) -> list[Level]:
    """The features of an n-gram model: each n-gram of the training text, of each order."""
    levels = []
    shorter = orders[0].keys.new_zeros(1)
    for n, grams in enumerate(orders, start=1):
        whole = grams.counts if n == len(orders) else grams.counts * grams.initial
        levels.append(Level(grams.prefix, grams.suffix, shorter, grams.counts.double(), grams.total(whole).double()))
        shorter = grams.suffix
    return levels


def scores_and_normalisers(levels: list[Level], weights: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """s_h(w) of each pair and Z(h) of each context, level by level; ``weights`` are λ, (K,) float64 each."""
    s, Z = [weights[0]], [levels[0].total(weights[0].exp())]
    for level, weight in zip(levels[1:], weights[1:], strict=True):
        below = s[-1][level.suffix]
        unseen = (Z[-1][level.shorter] - level.total(below.exp())).clamp(min=0.0)
        s.append(weight + below)
        Z.append(unseen + level.total(s[-1].exp()))
    return s, Z


def log_likelihood(levels: list[Level], weights: Sequence[Tensor]) -> tuple[float, list[Tensor]]:
    """Σ log p of the training outcomes in nats, and its gradient: observed less expected counts of each feature."""
    s, Z = scores_and_normalisers(levels, weights)
    value = sum(float(level.longest @ -z.log()) for level, z in zip(levels, Z, strict=True))
    gradient = [level.counts for level in levels]
    value += sum(float(level.counts @ weight) for level, weight in zip(levels, weights, strict=True))
    # -dlog p/dZ(h), summed over all outcomes whose longest context ends in h
    pull = levels[-1].longest / Z[-1]
    expected = pull[levels[-1].context] * s[-1].exp()  # (K,)
    gradient[-1] = gradient[-1] - expected
    for n, (below, level) in reversed(list(enumerate(pairwise(levels)))):
        e = s[n].exp()
        replaced = _sums(level.suffix, pull[level.context], like=e)
        expected = _sums(level.suffix, expected, like=e)
        pull = below.longest / Z[n] + _sums(level.shorter, pull, like=Z[n])
        expected += e * (pull[below.context] - replaced)
        gradient[n] = below.counts - expected
    return value, gradient


def backoff_table(orders: list[NGrams], weights: Sequence[Tensor], vocabulary_size: int) -> NGramTable:
    """The model as a backoff model, which it is: where hw is no feature, p(w | h) = Z(h') / Z(h) p(w | h')."""
    levels = ngram_levels(orders)
    s, Z = scores_and_normalisers(levels, weights)
    logprob = [scores - z.log()[level.context] for level, scores, z in zip(levels, s, Z, strict=True)]
    backoff = [shorter.log()[level.shorter] - z.log() for level, shorter, z in zip(levels[1:], Z, Z[1:], strict=False)]
    backoff = backoff or [Z[0][:0]]
    keys = [grams.keys for grams in orders[1:]] or [orders[0].keys[:0]]
    return NGramTable(vocabulary_size, torch.cat(keys), torch.cat(logprob).float(), torch.cat(backoff).float())
