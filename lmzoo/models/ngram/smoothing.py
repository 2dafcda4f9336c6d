"""Estimating backoff n-gram models from counts, by every classic smoothing.

All are one recursion. With a discount d taken off each count a, and e(h) added to each context's total,

    u(w | h) = (a(hw) - d(hw)) / (Σ_x a(hx) + e(h))
    γ(h)     = (Σ_x d(hx) + e(h)) / (Σ_x a(hx) + e(h))

and, h' being h without its oldest word, p(w | h) = u(w | h) + γ(h) p(w | h') if interpolated; else
p(w | h) = u(w | h) where that is positive and α(h) p(w | h') where not, α making the sum one.

| smoothing | a | d | e(h) | source |
|---|---|---|---|---|
| mle | count | 0 | 0 | |
| additive | count | 0 | δ V | Lidstone (1920); interpolated, MacKay & Peto (1995) |
| witten_bell | count | 0 | number of words seen after h | Witten & Bell (1991), method C |
| absolute | count | D | 0 | Ney, Essen & Kneser (1994) |
| kneser_ney | adjusted count | D | 0 | Kneser & Ney (1995) |
| modified_kneser_ney | adjusted count | D_1, D_2, D_3+ | 0 | Chen & Goodman (1998), Heafield et al. (2013) |
"""

import logging
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.models.ngram.counts import NGrams, adjusted_counts, count_ngrams
from lmzoo.models.ngram.discounts import (
    FALLBACK,
    absolute_discount,
    counts_of_counts,
    kenlm_last_counts,
    modified_discounts,
)
from lmzoo.models.ngram.table import NGramTable

log = logging.getLogger("lmzoo")

NOTHING = 1e-12
"""Probability below which a sum of float64 ones is taken for zero."""

Smoothing = Literal["mle", "additive", "witten_bell", "absolute", "kneser_ney", "modified_kneser_ney"]


def smoothing_counts(orders: list[NGrams], smoothing: Smoothing) -> list[Tensor]:
    """The counts a that a smoothing starts from, (K_n,) for each order."""
    return adjusted_counts(orders) if smoothing.endswith("kneser_ney") else [grams.counts for grams in orders]


def discounts(
    tokens: Tensor, vocabulary_size: int, counts: list[Tensor], smoothing: Smoothing, fallback: bool
) -> list[list[float]]:
    """What is taken off counts 1, 2 and 3+, for each order.

    Raises: UserError where the counts of an order give no discounts and ``fallback`` is off.
    """
    if smoothing in ("mle", "additive", "witten_bell"):
        return [[0.0] * 3 for _ in counts]
    modified = smoothing == "modified_kneser_ney"
    t = [counts_of_counts(a) for a in counts]
    if modified:
        for t_n, (adjusted, raw) in zip(t, kenlm_last_counts(tokens, vocabulary_size, len(counts)), strict=False):
            for count, change in ((adjusted, -1), (raw, 1)):
                if count < len(t_n):
                    t_n[count] += change
    result = []
    for n, t_n in enumerate(t, start=1):
        try:
            result.append(modified_discounts(t_n) if modified else absolute_discount(t_n))
        except UserError as error:
            reason = f"the training text gives no {smoothing} discounts for {n}-grams ({error})"
            if not fallback:
                raise UserError(f"{reason}: train on more text or set model.discount_fallback=true") from None
            result.append(FALLBACK if modified else FALLBACK[:1] * 3)
            log.warning("%s: taking %s", reason, ", ".join(map(str, result[-1])))
    return result


def estimate(
    tokens: Tensor,
    *,
    vocabulary_size: int,
    order: int,
    smoothing: Smoothing,
    interpolated: bool,
    interpolate_unigrams: bool,
    pseudocount: float,
    discount_fallback: bool,
    prune: Sequence[int],
) -> NGramTable:
    """Count a text and estimate a model of it.

    Args:
        tokens: (T,) int64, T >= 1, each sentence closed by word 0.
        vocabulary_size: V, the number of types that share probability, seen or not.
        interpolated: whether seen words, too, get a share of the lower order.
        interpolate_unigrams: whether γ of the unigrams goes to all types alike, else to the unseen
            ones alone, as far as there are any.
        pseudocount: δ of additive smoothing.
        discount_fallback: whether an order whose counts give no discounts takes fixed ones.
        prune: for each order, the count up to which its n-grams are left out; not decreasing, and 0
            for unigrams. The last goes for all higher orders.

    Raises: UserError where discounts cannot be computed.
    """
    orders = count_ngrams(tokens, vocabulary_size, order)
    counts = smoothing_counts(orders, smoothing)
    D = discounts(tokens, vocabulary_size, counts, smoothing, discount_fallback)
    lower = torch.full((1,), 1 / vocabulary_size, dtype=torch.float64, device=tokens.device)
    logprob, backoff, kept = [], [], []
    for n, (grams, a) in enumerate(zip(orders, counts, strict=True), start=1):
        d = torch.tensor([0.0, *D[n - 1]], dtype=torch.float64, device=a.device)[a.clamp(max=3)]  # (K_n,)
        if threshold := prune[min(n, len(prune)) - 1]:
            kept.append(grams.counts > threshold)
            d = torch.where(kept[-1], d, a)  # what is left out gives its whole count to the lower order
        e = 0.0
        if smoothing == "additive":
            e = pseudocount * vocabulary_size
        elif smoothing == "witten_bell":
            e = grams.total(a > 0)
        total = grams.total(a) + e  # (contexts,)
        u = (a - d) / total.index_select(0, grams.prefix)
        gamma = torch.where(total > 0, (grams.total(d) + e) / total, 1.0)
        below = lower.index_select(0, grams.suffix)  # (K_n,)
        if n == 1 and not interpolate_unigrams and (a == 0).any():
            below = (a == 0) / (a == 0).sum()
        if n == 1 or interpolated or smoothing == "additive":
            lower = u + gamma.index_select(0, grams.prefix) * below
        else:
            lower, gamma = _back_off(grams, u, gamma, below)
        if smoothing == "additive" and not interpolated and n < order:
            # Lidstone's estimate is uniform where it does not know the whole context.
            lower = torch.where(grams.initial, lower, 1 / vocabulary_size)
            gamma = torch.where(grams.total(grams.initial) > 0, gamma, 1.0)
        logprob.append(lower.float().log())
        backoff.append(gamma.float().log())
    keys = torch.cat([tokens[:0], *(grams.keys for grams in orders[1:])])
    table = NGramTable(vocabulary_size, keys, torch.cat(logprob), torch.cat([logprob[0][:0], *backoff[1:]]))
    return _without(table, torch.cat(kept)) if kept else table


def _back_off(grams: NGrams, u: Tensor, gamma: Tensor, below: Tensor) -> tuple[Tensor, Tensor]:
    """p(w | h) of the n-grams and α(h), where seen words get u alone and the others share γ as the order below."""
    seen = u > 0
    free = 1 - grams.total(torch.where(seen, below, 0.0))  # (contexts,): what the lower order gives to unseen words
    shared = free > NOTHING
    u = u / torch.where(shared, 1.0, 1 - gamma)[grams.prefix]  # nobody left to share γ: seen words keep it
    alpha = torch.where(shared, gamma / free, 0.0)
    return torch.where(seen, u, alpha[grams.prefix] * below), alpha


def _without(table: NGramTable, kept: Tensor) -> NGramTable:
    """A table's n-grams but for those left out, whose prefixes stay if they do.

    Args:
        kept: whether a row stays, for the last so many rows; the others do.
    """
    V = table.vocabulary_size
    kept = torch.cat([kept.new_ones(len(table.logprob) - len(kept)), kept])  # (V + K,)
    row = kept.cumsum(0) - 1
    keys = table.keys[kept[V:]]
    return NGramTable(V, row[keys // V] * V + keys % V, table.logprob[kept], table.backoff[kept[: len(table.backoff)]])
