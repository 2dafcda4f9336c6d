"""Discounts of Kneser-Ney smoothing, from counts of counts.

Kneser & Ney, *Improved backing-off for m-gram language modeling*, ICASSP 1995.
Chen & Goodman, *An empirical study of smoothing techniques for language modeling*, TR-10-98, 1998.
Heafield et al., *Scalable modified Kneser-Ney language model estimation*, ACL 2013 (KenLM).

t_k is the number of n-grams of one order whose count is k.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.models.ngram.counts import PIECE, Numbers, places_between

FALLBACK = [0.5, 1.0, 1.5]
"""KenLM's D_1, D_2, D_3+ for an order whose counts give no discounts."""


def counts_of_counts(counts: Numbers) -> list[int]:
    """(K_n,) counts of one order -> t_0 … t_4."""
    parts = (counts[begin : begin + PIECE].clamp(max=5) for begin in range(0, len(counts) or 1, PIECE))
    return torch.stack([torch.bincount(part, minlength=6) for part in parts]).sum(0)[:5].tolist()


def kenlm_counts_of_counts(tokens: Tensor, vocabulary_size: int, counts: Sequence[Numbers]) -> list[list[int]]:
    """t_0 … t_4 of each order as KenLM has them, from the (K_n,) adjusted counts; see `kenlm_last_counts`."""
    t = [counts_of_counts(a) for a in counts]
    for t_n, (adjusted, raw) in zip(t, kenlm_last_counts(tokens, vocabulary_size, len(counts)), strict=False):
        for count, change in ((adjusted, -1), (raw, 1)):
            if count < len(t_n):
                t_n[count] += change
    return t


def absolute_discount(t: list[int]) -> list[float]:
    """D = t_1 / (t_1 + 2 t_2) (Ney, Essen & Kneser 1994), the same for counts 1, 2 and 3+.

    Raises: UserError where t_1 is 0.
    """
    if not t[1]:
        raise UserError("no n-gram has count 1")
    return [t[1] / (t[1] + 2 * t[2])] * 3


def modified_discounts(t: list[int]) -> list[float]:
    """D_k = k - (k + 1) Y t_{k+1} / t_k for k = 1, 2, 3+ with Y = t_1 / (t_1 + 2 t_2) (Chen & Goodman, equation 26).

    Raises: UserError where t_1, t_2 or t_3 is 0 or a D_k is outside [0, k].
    """
    if 0 in t[1:4]:
        raise UserError(f"no n-gram has adjusted count {t.index(0, 1)}")
    y = t[1] / (t[1] + 2 * t[2])
    discounts = [k - (k + 1) * y * t[k + 1] / t[k] for k in (1, 2, 3)]
    for k, discount in enumerate(discounts, start=1):
        if not 0 <= discount <= k:
            raise UserError(f"the discount of adjusted count {k} would be {discount:.4g}")
    return discounts


def kenlm_last_counts(tokens: Tensor, vocabulary_size: int, order: int) -> Iterator[tuple[int, int]]:
    """The adjusted and the raw count of the n-gram that KenLM counts last, for n = 1, 2, … below N.

    KenLM sorts its stream of n-grams from their last word backwards. Words are numbered in the order in which they
    first occur, after ``<s>`` and ``</s>``. The last n-gram of the stream enters the counts of counts with its raw
    count, where the adjusted one belongs (``lm/builder/adjust_counts.cc``, the loop after the main one). That is one
    n-gram of each order, but on a small text it changes the discounts, and so all probabilities.

    Nothing is given from the order on whose last n-gram begins with ``<s>``: its adjusted count is its raw count.

    Args:
        tokens: (T,) whole numbers, T >= 1, each sentence closed by word 0.
    """
    number = torch.full((vocabulary_size,), -2, device=tokens.device)  # where a word first occurs; -2: nowhere
    for begin in reversed(range(0, len(tokens), PIECE)):
        piece = tokens[begin : begin + PIECE].long()
        place = torch.arange(begin, begin + len(piece), device=tokens.device)
        number.scatter_reduce_(0, piece, place, "amin", include_self=False)
    number[EOS_ID] = -1
    last = int(number.argmax())
    end = places_between(tokens, last, last + 1)  # where the last n-gram ends, everywhere it occurs
    for n in range(1, order):  # before the first word, at -1, stands what closes the last sentence
        oldest = number[tokens[end - n + 1]]
        end = end[oldest == oldest.max()]
        if n > 1 and tokens[end[0] - n + 1] == EOS_ID:  # begins with <s>
            break
        yield len(torch.unique(tokens[end - n])), len(end)
