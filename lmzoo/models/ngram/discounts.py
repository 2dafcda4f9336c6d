"""Discounts of Kneser-Ney smoothing, from counts of counts.

Kneser & Ney, *Improved backing-off for m-gram language modeling*, ICASSP 1995.
Chen & Goodman, *An empirical study of smoothing techniques for language modeling*, TR-10-98, 1998.
Heafield et al., *Scalable modified Kneser-Ney language model estimation*, ACL 2013 (KenLM).
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus.vocabulary import EOS_ID

FALLBACK = [0.5, 1.0, 1.5]
"""KenLM's D_1, D_2, D_3+ for an order whose counts give none."""


def counts_of_counts(counts: Tensor) -> list[int]:
    """t_0 … t_4: how many n-grams have count k."""
    return torch.bincount(counts.clamp(max=5), minlength=6)[:5].tolist()


def absolute_discount(t: list[int]) -> list[float]:
    """D = t_1 / (t_1 + 2 t_2) of Ney, Essen & Kneser (1994), the same for counts 1, 2 and 3+.

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
    """The adjusted and the raw counts of the n-grams that KenLM's counting finishes last, for n = 1, 2, … below N.

    KenLM streams n-grams sorted from their last word backwards, words numbered as they first occur
    after ``<s>`` and ``</s>``. What its stream ends on enters the counts of counts with the raw count
    instead of the adjusted one (``lm/builder/adjust_counts.cc``, the loop after the main one). It is one
    n-gram of each order, but on a small text its discounts, and so all probabilities, show it.

    Args:
        tokens: (T,) int64, T >= 1, each sentence closed by word 0.
    """
    words = torch.cat([tokens.new_full((1,), EOS_ID), tokens])  # (T + 1,)
    number = torch.full((vocabulary_size,), len(tokens), device=tokens.device)
    number.scatter_reduce_(0, tokens, torch.arange(len(tokens), device=tokens.device), "amin")
    number[EOS_ID] = -1
    end = torch.arange(1, len(words), device=tokens.device)  # where the n-gram at hand ends, everywhere it occurs
    for n in range(1, order):
        oldest = number[words[end - n + 1]]
        end = end[oldest == oldest.max()]
        if n > 1 and words[end[0] - n + 1] == EOS_ID:  # begins with <s>: its adjusted count is its raw count
            break
        yield len(torch.unique(words[end - n])), len(end)
