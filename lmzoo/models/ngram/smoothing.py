"""Estimating backoff n-gram models from counts, by every classic smoothing.

Every smoothing is one recursion over the orders. a is the count of an n-gram hw, d is the discount that is taken off
it, and e(h) is added to the total of each context h. Then

    u(w | h) = (a(hw) - d(hw)) / (Σ_x a(hx) + e(h))                (1)
    γ(h)     = (Σ_x d(hx) + e(h)) / (Σ_x a(hx) + e(h))             (2)

are the share of a seen word, and the share of the lower order. The context h' is h without its oldest word.

    p(w | h) = u(w | h) + γ(h) p(w | h')                           (3)  interpolated
    p(w | h) = u(w | h) if u(w | h) > 0, else α(h) p(w | h')       (4)  not interpolated

In (4), α(h) makes the sum over w one. For modified Kneser-Ney, (1) and (2) are the normalisation (section 3.3) and (3)
the interpolation (section 3.4) of Heafield et al. (2013).

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Literal

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.options import Count, Idle, NonNegative, Options, configured
from lmzoo.models.ngram.counts import PIECE, NGrams, Numbers, Order, adjusted_counts, count_ngrams
from lmzoo.models.ngram.discounts import (
    FALLBACK,
    absolute_discount,
    counts_of_counts,
    kenlm_counts_of_counts,
    modified_discounts,
)
from lmzoo.models.ngram.external import count_in_files
from lmzoo.models.ngram.table import NGramTable

log = logging.getLogger("lmzoo")

NOTHING = 1e-12
"""A sum of float64 probabilities below this is taken for zero."""

Smoothing = Literal["mle", "additive", "witten_bell", "absolute", "kneser_ney", "modified_kneser_ney"]


class SmoothingOptions(Options):
    """How n-grams are counted, and how counts become probabilities."""

    smoothing: Smoothing = "modified_kneser_ney"
    """smoothing method; mle does not smooth."""
    interpolated: bool = True
    """whether seen n-grams are interpolated with lower orders, too. Else only unseen ones back off."""
    interpolate_unigrams: bool = True
    """whether the discounted unigram mass is spread over all types. Else it is spread over unseen types only, if any
    (lmplz's ``--interpolate_unigrams``)."""
    pseudocount: Annotated[
        NonNegative, Idle(("model.smoothing", "mle", "witten_bell", "absolute", "kneser_ney", "modified_kneser_ney"))
    ] = 1.0
    """δ, added to each count by additive smoothing."""
    discount_fallback: Annotated[bool, Idle(("model.smoothing", "mle", "additive", "witten_bell"))] = True
    """whether an order uses the discounts 0.5, 1 and 1.5 if the text is too small or too regular to estimate them. Else
    that is an error, as in lmplz."""
    prune: Sequence[Count] = (0,)
    """count threshold of each order, non-decreasing, 0 for unigrams; the last also applies to all higher orders.
    N-grams with counts up to it are pruned (lmplz's ``--prune``)."""
    memory: NonNegative | None = None
    """memory limit for counting in GiB, besides the finished table; n-grams are then sorted in parts in temporary files
    (TMPDIR) and merged, with identical results (lmplz's ``-S``). None: in memory."""


def discounts(
    tokens: Tensor, vocabulary_size: int, counts: Sequence[Numbers], smoothing: Smoothing, fallback: bool
) -> list[list[float]]:
    """The discounts of the counts 1, 2 and 3+, for each order.

    Args:
        tokens: (T,) whole numbers, the text.
        counts: (K_n,) for each order, the a of the table above.
        fallback: whether an order whose counts give no discounts takes fixed ones; else that is a UserError.
    """
    if smoothing in ("mle", "additive", "witten_bell"):
        return [[0.0] * 3 for _ in counts]
    modified = smoothing == "modified_kneser_ney"
    t = kenlm_counts_of_counts(tokens, vocabulary_size, counts) if modified else map(counts_of_counts, counts)
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


@configured(SmoothingOptions)
def estimate(tokens: Tensor, vocabulary_size: int, order: int, options: SmoothingOptions) -> NGramTable:
    """Count the n-grams of a text and estimate a model of it.

    Args:
        tokens: (T,) whole numbers, T >= 1, each sentence closed by word 0.
        vocabulary_size: V, the number of types that share probability, seen or not.
        order: N.

    Raises: UserError where discounts cannot be computed, and as `count_in_files` does.
    """
    text, memory = (tokens, vocabulary_size, order), options.memory
    orders: list[Order] = [*(count_ngrams(*text) if memory is None else count_in_files(*text, memory))]
    adjusted = options.smoothing.endswith("kneser_ney")
    counts = adjusted_counts(orders) if adjusted else [grams.counts for grams in orders]
    D = discounts(tokens, vocabulary_size, counts, options.smoothing, options.discount_fallback)
    pruned = any(options.prune[:order])
    if not pruned:  # else raw counts are asked for again
        orders = [replace(grams, counts=a) for grams, a in zip(orders, counts, strict=True)]
    keys = [grams.keys for grams in orders[1:]]
    rows = sum(len(grams.keys) for grams in orders)
    logprob = torch.empty(rows, device=tokens.device)
    backoff = torch.empty(rows - len(orders[-1].keys), device=tokens.device)
    kept = torch.ones(rows if pruned else 0, dtype=torch.bool, device=tokens.device)

    def step(n: int, grams: Order, a: Numbers, lower: Tensor) -> Tensor:
        """(K_n,) p of the n-grams, empty for the last order, from the (K_n,) counts a and the order below's p."""
        p = lower.new_empty(len(grams.keys) if n < order else 0)
        first = grams.first + grams.contexts if n > 1 else 0  # row of the first n-gram
        threshold = options.prune[:n][-1]
        for here, part in grams.parts():
            stays, below = part.counts > threshold, lower.index_select(0, part.suffix)
            share, gamma = _shares_and_backoffs(part, a[here], below, D[n - 1], stays, options, n, n == order)
            in_table = slice(first + here.start, first + here.stop)
            logprob[in_table] = share.float().log()
            if n < order:
                p[here] = share
            if n > 1:
                backoff[part.first : part.first + part.contexts] = gamma.float().log()
            if n > 1 and pruned:  # all unigrams stay, those without a count, too
                kept[in_table] = stays
        return p

    p = torch.full((1,), 1 / vocabulary_size, dtype=torch.float64, device=tokens.device)  # below the unigrams
    for n in range(1, order + 1):
        p = step(n, orders.pop(0), counts.pop(0), p)
    if not pruned:
        return NGramTable(
            vocabulary_size, _filled(_pieces(keys), rows - vocabulary_size, tokens.device), logprob, backoff
        )
    return selected(vocabulary_size, keys, logprob, backoff, kept)


def _shares_and_backoffs(
    part: NGrams, a: Tensor, below: Tensor, D: list[float], stays: Tensor, options: SmoothingOptions, n: int, last: bool
) -> tuple[Tensor, Tensor]:
    """(K,) p(w | h) and (contexts,) γ or α of a part of order n, from the (K,) counts and p(w | h').

    Args:
        D: the discounts of the counts 1, 2 and 3+.
        stays: (K,) bool; an n-gram that does not stay is discounted by its whole count.
    """
    V, smoothing, interpolated = part.vocabulary_size, options.smoothing, options.interpolated
    if n == 1 and not options.interpolate_unigrams and (a == 0).any():
        below = (a == 0) / (a == 0).sum()
    e = options.pseudocount * V if smoothing == "additive" else 0.0
    if smoothing == "witten_bell":
        e = part.total(a > 0)
    d = torch.tensor([0.0, *D], dtype=torch.float64, device=a.device)[a.clamp(max=3)]
    d = torch.where(stays, d, a)
    total = part.total(a) + e  # (contexts,)
    u = (a - d) / total.index_select(0, part.prefix)  # (1)
    gamma = torch.where(total > 0, (part.total(d) + e) / total, 1.0)  # (2); without a count, to the lower order
    if n == 1 or interpolated or smoothing == "additive":
        p = u + gamma.index_select(0, part.prefix) * below  # (3)
    else:
        seen = u > 0  # (4)
        free = 1 - part.total(torch.where(seen, below, 0.0))  # (contexts,) what the lower order gives to unseen words
        shared = free > NOTHING
        u = u / torch.where(shared, 1.0, 1 - gamma)[part.prefix]  # without an unseen word, the seen ones keep γ
        gamma = torch.where(shared, gamma / free, 0.0)  # α(h)
        p = torch.where(seen, u, gamma[part.prefix] * below)
    if smoothing == "additive" and not interpolated and not last:
        initial = torch.arange(len(a), device=a.device) < part.initial  # Lidstone: uniform without all the context
        p = torch.where(initial, p, 1 / V)
        gamma = torch.where(part.total(initial) > 0, gamma, 1.0)
    return p, gamma


def _pieces(parts: list[Numbers]) -> Iterator[Tensor]:
    """The parts, a piece at a time. The list is empty then: each leaves the memory when it has been read."""
    while parts:
        part = parts.pop(0)
        for begin in range(0, len(part), PIECE):
            yield part[begin : begin + PIECE]


def _filled(pieces: Iterable[Tensor], size: int, device: torch.device) -> Tensor:
    """Keys in one tensor of this size."""
    tensor, begin = torch.empty(size, dtype=torch.int64, device=device), 0
    for piece in pieces:
        tensor[begin : begin + len(piece)] = piece
        begin += len(piece)
    return tensor


def selected(V: int, keys: list[Numbers], logprob: Tensor, backoff: Tensor, kept: Tensor) -> NGramTable:
    """The table of the n-grams that stay.

    Args:
        keys: of the orders from 2 on. The list is empty then.
        logprob, backoff: of all n-grams.
        kept: (V + K,) bool, whether each n-gram stays, as the unigrams do. The prefix of one that stays, stays.
    """
    row = kept[: len(backoff)].cumsum(0) - 1  # of a context, in the new table

    def pieces() -> Iterator[Tensor]:
        begin = V
        for piece in _pieces(keys):
            stay = piece[kept[begin : begin + len(piece)]]
            yield row[stay // V] * V + stay % V
            begin += len(piece)

    whole = _filled(pieces(), int(kept[V:].sum()), kept.device)
    return NGramTable(V, whole, logprob[kept], backoff[kept[: len(backoff)]])
