"""Counting the n-grams of every order, as flat sorted tensors."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID


@dataclass(frozen=True)
class NGrams:
    """The K_n distinct n-grams of one order, sorted as in `lmzoo.models.ngram.table`.

    Attributes:
        keys: (K_n,) ascending. The keys of unigrams are the V words, whether they occur or not.
        prefix: (K_n,) ascending; which n-gram of the order below is the first n - 1 words, the context.
        suffix: (K_n,) which n-gram of the order below is the last n - 1 words.
        counts: (K_n,) occurrences.
        initial: (K_n,) bool, whether the n-gram begins with ``<s>``, so that no word can precede it.
        contexts: K_{n-1}. Unigrams have one context, the empty one.
    """

    keys: Tensor
    prefix: Tensor
    suffix: Tensor
    counts: Tensor
    initial: Tensor
    contexts: int

    def total(self, values: Tensor) -> Tensor:
        """Σ_w values(hw) over the words seen after each context h, (contexts,) float64."""
        return torch.bincount(self.prefix, weights=values.double(), minlength=self.contexts)


def count_ngrams(tokens: Tensor, vocabulary_size: int, order: int) -> list[NGrams]:
    """Count the n-grams of orders 1 to N in a text.

    Each sentence is ``<s> w_1 … w_k </s>``. The unigram ``<s>`` is not counted.

    Args:
        tokens: (T,) int64, each sentence closed by word 0.
    """
    words = torch.cat([tokens.new_full((1,), EOS_ID), tokens])  # (T + 1,): a 0 ends one sentence and begins the next
    unigrams = torch.arange(vocabulary_size, device=tokens.device)
    none = torch.zeros_like(unigrams)
    counts = torch.bincount(tokens, minlength=vocabulary_size)
    orders = [NGrams(unigrams, none, none, counts, none.bool(), contexts=1)]
    begins = unigrams == EOS_ID  # which contexts begin with <s>
    index, first = words.clone(), 0  # which n-gram of the order below ends at each place; its first row
    position = torch.arange(1, len(words), device=tokens.device)  # where n-grams end
    for n in range(2, order + 1):
        if n > 2:  # beyond <s> alone, no context ends with word 0
            position = position[words[position] != EOS_ID] + 1
        keys, inverse, counts = torch.unique(
            (index[position - 1] + first) * vocabulary_size + words[position], return_inverse=True, return_counts=True
        )
        prefix = keys // vocabulary_size - first
        suffix = torch.empty_like(keys).scatter_(0, inverse, index[position])
        begins = begins[prefix]
        orders.append(NGrams(keys, prefix, suffix, counts, begins, contexts=len(orders[-1].keys)))
        first += orders[-1].contexts
        index[position] = inverse
    return orders


def adjusted_counts(orders: list[NGrams]) -> list[Tensor]:
    """The adjusted counts a(g), (K_n,) int64 for each order (Kneser & Ney 1995; Heafield et al. 2013, section 3.2).

    a(g) is the raw count if g has order N or begins with ``<s>``. Else it is the number of distinct words that occur
    before g, ``<s>`` among them.
    """
    adjusted = []
    for lower, higher in pairwise(orders):
        preceding = torch.bincount(higher.suffix, minlength=higher.contexts)
        adjusted.append(torch.where(lower.initial, lower.counts, preceding))
    return [*adjusted, orders[-1].counts]
