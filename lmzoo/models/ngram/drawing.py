"""Words drawn from a backoff n-gram table without the probabilities of all words."""

import torch
from torch import Tensor

from lmzoo.models.ngram.table import NGramTable


class Drawing:
    """Draws exactly from p(w | h) of a table whose probabilities sum to 1 for every context.

    Either one of the words listed after h is drawn, as often as they have mass together, or a word after the shorter
    context h'. Since backoff(h) p(w | h') is for words that are not listed, a listed one is refused, and drawn again
    after h' (rejection sampling, von Neumann 1951).

    Args:
        words: only those numbered below this are drawn.
    """

    def __init__(self, table: NGramTable, words: int):
        self.table, self.words = table, words
        V = table.vocabulary_size
        sums = [part.double().exp().cpu().cumsum(0) for part in (table.logprob[:V], table.logprob[V:])]
        self.unigrams, listed = (part.to(table.logprob.device) for part in sums)  # (V,), (K,); always the same bits
        self.listed = torch.cat([listed.new_zeros(1), listed])  # (K + 1,) the mass before each n-gram

    def __call__(self, context: Tensor, random: torch.Generator) -> Tensor:
        """(B, N - 1) contexts, oldest word first -> (B,) a word after each."""
        levels = self.table.suffixes(context)  # (B, N - 1), the shortest first
        word = context.new_empty(len(context))
        todo = torch.arange(len(context), device=context.device)
        level = torch.full_like(todo, levels.shape[1])  # where each is drawn: the words in its context
        while len(todo):
            drawn, at = self._after(levels[todo], level, random)
            word[todo] = drawn
            level = torch.full_like(at, -1)  # where each is drawn again; -1 where it stays
            for lower in range(levels.shape[1], 0, -1):
                listed = self.table.child(levels[todo, lower - 1], drawn) >= 0
                level = torch.where(listed & (at < lower), lower - 1, level)  # the lowest that refuses is the last
            level = torch.where(drawn < self.words, level, levels.shape[1])
            todo, level = todo[level >= 0], level[level >= 0]
        return word

    def _after(self, levels: Tensor, level: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """(B,) words drawn at some level or, where no listed one was, at a lower one, which is returned."""
        V, keys = self.table.vocabulary_size, self.table.keys
        word, at = torch.empty_like(level), level.clone()
        todo = torch.arange(len(level), device=level.device)
        while len(todo):
            u = torch.rand(len(todo), generator=random, dtype=torch.float64).to(levels.device)
            row = levels[todo].gather(1, (at[todo] - 1).clamp(min=0)[:, None])[:, 0] if levels.shape[1] else todo
            row = row.where(at[todo] > 0, -1)
            begin, end = (torch.searchsorted(keys, (row + more) * V) for more in (0, 1))
            mass = (self.listed[end] - self.listed[begin]).where(row >= 0, 0.0)
            hit = (u < mass) | (end - begin == V)  # all words are listed, and their mass is 1 up to rounding
            place = torch.searchsorted(self.listed, self.listed[begin] + u, right=True) - 1
            place = torch.minimum(place, end - 1).clamp(min=0)
            unigram = torch.searchsorted(self.unigrams, u * self.unigrams[-1], right=True).clamp(max=V - 1)
            listed = keys[place] % V if len(keys) else unigram
            word[todo] = torch.where(hit, listed, unigram)
            on = ~hit & (at[todo] > 0)
            todo = todo[on]
            at[todo] -= 1
        return word, at
