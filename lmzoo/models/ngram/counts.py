"""Counting the n-grams of every order, as flat sorted tensors, a range of contexts at a time.

No step takes memory for the whole text beyond its words and the n-grams themselves, so that a text of a hundred million
words is counted beside its table.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID

PIECE = 2**18
"""n-grams are estimated about so many at a time, so that what is computed for them is not large for the allocator."""
RANGES = 8
"""The ranges of contexts in which a large text is counted. Each takes a pass over the text."""


class Numbers(Protocol):
    """A vector, in memory or in a file (`lmzoo.models.ngram.external`), of which slices are read."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> Tensor: ...


@dataclass(frozen=True)
class Order:
    """The K_n distinct n-grams of one order, sorted as in `lmzoo.models.ngram.table`.

    Attributes:
        keys: (K_n,) int64, ascending. The keys of unigrams are the V words, whether they occur or not.
        suffix: (K_n,) which n-gram of the order below is the last n - 1 words.
        counts: (K_n,) occurrences.
        initial: how many n-grams begin with ``<s>``, so that no word can precede them. They are the first ones.
        contexts: how many contexts there are, followed by a word or not. Unigrams have one context, the empty one.
        first: the row of the first context.
        vocabulary_size: V.
    """

    keys: Numbers
    suffix: Numbers
    counts: Numbers
    initial: int
    contexts: int
    first: int
    vocabulary_size: int

    def parts(self) -> Iterator[tuple[slice, "NGrams"]]:
        """Ranges of n-grams, each with all the n-grams of its contexts; together they have every context once."""
        begin, first, end_of_contexts = 0, self.first, self.first + self.contexts
        while first < end_of_contexts:
            end = min(begin + PIECE, len(self.keys))
            following = self.keys[end : end + self.vocabulary_size]  # no context is followed by more words
            after = int(following[0]) // self.vocabulary_size + 1 if len(following) else end_of_contexts
            end += int(torch.searchsorted(following, after * self.vocabulary_size))
            rows = slice(begin, end)
            arrays = self.keys[rows], self.suffix[rows], self.counts[rows]
            initial = min(max(self.initial - begin, 0), end - begin)
            yield rows, NGrams(*arrays, initial, after - first, first, self.vocabulary_size)
            begin, first = end, after


@dataclass(frozen=True)
class NGrams(Order):
    """The n-grams of one order, or of a range of its contexts, in memory."""

    keys: Tensor
    suffix: Tensor
    counts: Tensor

    @cached_property
    def prefix(self) -> Tensor:
        """(K_n,) ascending; which of the contexts is the first n - 1 words."""
        return self.keys // self.vocabulary_size - self.first

    def total(self, values: Tensor) -> Tensor:
        """Σ_w values(hw) over the words seen after each context h, (contexts,) float64."""
        return torch.bincount(self.prefix, weights=values.double(), minlength=self.contexts)


def unigrams(tokens: Tensor, vocabulary_size: int, kind: torch.dtype) -> NGrams:
    """The unigrams of a text, with counts of this type. ``<s>`` is not counted."""
    counts = torch.bincount(tokens, minlength=vocabulary_size).to(kind)
    keys = torch.arange(vocabulary_size, device=tokens.device)
    return NGrams(keys, torch.zeros_like(counts), counts, 0, 1, 0, vocabulary_size)


def number_type(tokens: Tensor) -> torch.dtype:
    """Of n-grams of a text, and of their counts."""
    return torch.int32 if len(tokens) < 2**31 - 1 else torch.int64


def count_ngrams(tokens: Tensor, vocabulary_size: int, order: int) -> list[NGrams]:
    """Count the n-grams of orders 1 to N in a text of (T,) whole numbers, each sentence closed by word 0.

    Each sentence is ``<s> w_1 … w_k </s>``. The unigram ``<s>`` is not counted.
    """
    small = number_type(tokens)
    words = torch.cat([tokens.new_full((1,), EOS_ID, dtype=small), tokens.to(small)])  # a 0 ends and begins sentences
    orders = [unigrams(tokens, vocabulary_size, small)]
    first, begins = 0, 1  # the row of the first context; how many contexts begin with <s>
    index = words  # (T + 1,) which n-gram of the order below ends at each place; -1 where none does
    for n in range(2, order + 1):
        ends, rows = torch.full_like(index, -1), 0
        keys = tokens.new_empty(len(tokens), dtype=torch.int64)  # the end is never written, so it takes no memory
        suffix, counts = index.new_empty(len(tokens)), index.new_empty(len(tokens))
        for low, high in _ranges(orders[-1].counts):
            place = places_between(index[:-1], low, high) + 1  # where the n-grams end
            if n > 2:  # beyond <s> alone, no context ends with word 0
                place = place[words[place - 1] != EOS_ID]
            ngrams, inverse, occurrences = torch.unique(
                (index[place - 1].long() + first) * vocabulary_size + words[place],
                return_inverse=True,
                return_counts=True,
            )
            part = slice(rows, rows + len(ngrams))
            keys[part], counts[part] = ngrams, occurrences
            suffix[part].scatter_(0, inverse, index[place])
            ends[place] = inverse.to(small) + rows
            rows += len(ngrams)
        keys, suffix, counts = keys[:rows], suffix[:rows], counts[:rows]
        begins = int(torch.searchsorted(keys, (first + begins) * vocabulary_size))
        contexts = len(orders[-1].keys)
        orders.append(NGrams(keys, suffix, counts, begins, contexts, first, vocabulary_size))
        first += contexts
        index = ends
    return orders


def places_between(numbers: Tensor, low: int, high: int) -> Tensor:
    """Where (T,) numbers are at least ``low`` and below ``high``, sought in pieces that fit into the cache."""
    parts = (np.flatnonzero((part >= low) & (part < high)) for part in map(Tensor.numpy, numbers.split(PIECE)))
    return torch.from_numpy(np.concatenate([places + i * PIECE for i, places in enumerate(parts)]))


def _ranges(counts: Tensor) -> Iterator[tuple[int, int]]:
    """Ranges of contexts that hold about equal parts of a text, from the (C,) occurrences of the contexts."""
    places = counts.cumsum(0)
    tokens = int(places[-1:].sum())  # of no context, 0
    piece = max(4 * PIECE, tokens // RANGES)
    bounds = torch.searchsorted(places, torch.arange(1, max(1, -(-tokens // piece)), device=places.device) * piece) + 1
    return pairwise([0, *bounds.unique().tolist(), len(counts)])


def adjusted_counts(orders: Sequence[Order]) -> list[Numbers]:
    """The adjusted counts a(g), (K_n,) for each order (Kneser & Ney 1995; Heafield et al. 2013, section 3.2).

    a(g) is the raw count if g has order N or begins with ``<s>``. Else it is the number of distinct words that occur
    before g, ``<s>`` among them.
    """
    adjusted = []
    for lower, higher in pairwise(orders):
        initial = lower.counts[: lower.initial]
        preceding = torch.bincount(higher.suffix[:], minlength=higher.contexts).to(initial.dtype)
        preceding[: lower.initial] = initial
        adjusted.append(preceding)
    return [*adjusted, orders[-1].counts]
