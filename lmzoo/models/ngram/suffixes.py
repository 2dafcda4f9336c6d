"""A backoff table as a machine that reads words, with links from each n-gram to its longest listed suffix."""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from lmzoo.models.ngram.table import NGramTable

EMPTY = -1
"""Stands for the row of the context without words."""


class Suffixes:
    """Reads a word after each of some contexts: log p of the word, and the longest listed n-gram that then ends there.

    The links are those of Aho & Corasick, *Efficient string matching*, 1975: an n-gram without its oldest word, or
    without more words until it is listed. Every context of a table is reached, also those of tables in which an n-gram
    is listed and its suffix is not, as pruning leaves them.

    Attributes:
        back: (V + K,) the row of the longest listed n-gram that an n-gram ends with, itself not counted.
        logprob, backoff: (V + K,) float64; those of the table, with backoff 0 for n-grams of order N.
    """

    def __init__(self, table: NGramTable):
        self.table = table
        self.logprob, self.backoff = table.logprob.double(), torch.zeros_like(table.logprob, dtype=torch.float64)
        self.backoff[: len(table.backoff)] = table.backoff
        self.back = torch.full_like(table.logprob, EMPTY, dtype=torch.int64)
        for rows, context, word in self.orders():
            self.back[rows], _ = self.read(self.back[context], word)

    def orders(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Of each order from 2 on the K_n rows, and the (K_n,) rows of their contexts and their last words."""
        V = self.table.vocabulary_size
        for begin, end in pairwise(self.table.first_rows()[1:]):
            keys = self.table.keys[begin - V : end - V]
            yield slice(begin, end), keys // V, keys % V

    def read(self, contexts: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """(M,) rows of contexts or `EMPTY`, and the (M,) words that follow.

        Returns: (M,) rows of the longest listed n-grams that end with the words, and (M,) float64 log p of the words.
        """
        after, logprob = words.clone(), self.logprob[words]
        contexts, places = contexts.clone(), (contexts != EMPTY).nonzero()[:, 0]
        passed = torch.zeros_like(logprob)  # the backoffs on the way
        while len(places):
            child = self.table.child(contexts[places], words[places])
            listed = child >= 0
            found, child = places[listed], child[listed]
            after[found], logprob[found] = child, self.logprob[child]
            places = places[~listed]
            passed[places] += self.backoff[contexts[places]]
            contexts[places] = self.back[contexts[places]]
            places = places[contexts[places] != EMPTY]
        return after, logprob + passed
