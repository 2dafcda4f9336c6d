"""Backoff n-gram models as flat sorted tensors, and their look-up.

An n-gram is numbered recursively. The row of its first n - 1 words and its last word make its key, ``row * V + word``.
Its own row is its place among all sorted keys, after the V unigrams. Rows grow with the order, so one sorted tensor
holds every order, and no key exceeds rows times V.

Word 0 is ``</s>`` at the end of an n-gram and ``<s>`` at its beginning. No n-gram has it inside, so memory never
crosses a sentence boundary.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from lmzoo.numerics.hashing import HashTable, find
from lmzoo.numerics.sparse import ranges

SHORT = 2**10
"""So few words are scored without torch, whose operations have a higher fixed cost than numpy's."""

WORTH_HASHING = 2
"""A table is hashed once it has scored a token for every so many of its n-grams; before, a search takes less time."""


@dataclass
class NGramTable:
    """log p(w | h) = logprob(hw) if hw is listed, else backoff(h) + log p(w | h without its oldest word).

    A context that is not listed has backoff 0.

    Attributes:
        vocabulary_size: V, the number of unigrams.
        keys: (K,) int64, ascending: row of the first n - 1 words * V + last word, for n = 2 … N.
        logprob: (V + K,) by row, in nats. The first V rows are the unigrams; row 0 is ``</s>``.
        backoff: (C,) by row, in nats, for the C rows below order N. Row 0 is ``<s>``. It is 0 for longer n-grams that
            end in ``</s>``.
    """

    vocabulary_size: int
    keys: Tensor
    logprob: Tensor
    backoff: Tensor
    _scored: int = field(default=0, init=False)

    @property
    def order(self) -> int:
        """N, the length of the longest n-grams."""
        return len(self.first_rows()) - 1

    def first_rows(self) -> list[int]:
        """The first row of each order, and the number of rows: unigrams begin at 0, bigrams at V, and so on."""
        first = [0, self.vocabulary_size]
        while first[-1] < len(self.logprob):  # the keys of an order are those whose prefix is of the order below
            end = torch.searchsorted(self.keys, first[-1] * self.vocabulary_size)
            first.append(self.vocabulary_size + int(end))
        return first

    @cached_property
    def _places(self) -> HashTable:
        return HashTable(self.keys)

    def child(self, rows: Tensor, words: Tensor, hashed: bool = False) -> Tensor:
        """Rows of n-grams, and a word after each -> rows of the longer n-grams; -1 where one is not listed.

        A row of -1 is of no n-gram, and none is listed after it. The look-up of (N,) rows and words may be ``hashed``.
        """
        keys = rows * self.vocabulary_size + words
        place = self._places.find(keys) if hashed else find(self.keys, keys)
        return torch.where(place < 0, -1, place + self.vocabulary_size)

    def contexts(self, rows: Tensor, before: int) -> Tensor:
        """(B,) rows below order N -> (B, N - 1) their words; ``before`` stands before the words of a shorter one."""
        columns = [rows.new_empty(len(rows), 0)]
        for _ in range(self.order - 1):
            longer = rows >= self.vocabulary_size
            keys = torch.zeros_like(rows)
            keys[longer] = self.keys[rows[longer] - self.vocabulary_size]
            columns.insert(1, torch.where(longer, keys % self.vocabulary_size, rows)[:, None])
            rows = torch.where(longer, keys // self.vocabulary_size, before)
        return torch.cat(columns, 1)

    def suffixes(self, context: Tensor) -> Tensor:
        """(B, N - 1) contexts -> (B, N - 1) rows of their last 1, 2, … words; -1 where they are not listed."""
        rows, suffixes = context, [context[:, :0]]
        for m in range(1, context.shape[1] + 1):
            suffixes.append(rows[:, -1:])
            rows = self.child(rows[:, :-1], context[:, m:])  # (B, N - 1 - m) of the m + 1 words up to each column
        return torch.cat(suffixes, 1)

    def score(self, words: Tensor, context_length: int) -> Tensor:
        """(B, C + T) words -> (B, T) log p in nats of the last T words, each after at least C = N - 1 others.

        There is one pass per order over the positions before which a listed context ends. The n-gram that ends at one
        position is the context of the next.
        """
        batch, length = words.shape
        if words.numel() < SHORT and self.keys.numel() and words.device.type == "cpu":
            scores = self._score_short(words.numpy().ravel(), context_length).reshape(batch, length)
            return torch.from_numpy(scores[:, context_length:])
        # Rows of the batch stand one after another. An n-gram that reaches from one row into the next ends at one of
        # the first C positions of a row, which are dropped.
        words = words.reshape(-1)  # (B(C + T),)
        self._scored += len(words)
        hashed = self._scored * WORTH_HASHING >= len(self.keys)
        scores, context = self.logprob.index_select(0, words), words
        place = torch.arange(len(words), device=words.device)  # where each context ends
        for _ in range(context_length):
            place = place[:-1] if len(place) and place[-1] == len(words) - 1 else place
            place, context = place + 1, context[: len(place)]
            backed_off = scores.index_select(0, place) + self.backoff.index_select(0, context)
            ngram = self.child(context, words.index_select(0, place), hashed)
            logprob = self.logprob.index_select(0, ngram.clamp(min=0))
            scores.index_copy_(0, place, torch.where(ngram < 0, backed_off, logprob))
            listed = (ngram >= 0).nonzero()[:, 0]
            place, context = place.index_select(0, listed), ngram.index_select(0, listed)
        return scores.view(batch, length)[:, context_length:]

    def _score_short(self, words: np.ndarray, context_length: int) -> np.ndarray:
        """`score` of (L,) words in numpy, whose operations have a lower fixed cost; the first ones are not scored."""
        keys, logprob, backoff = (part.numpy() for part in (self.keys, self.logprob, self.backoff))
        V, last = self.vocabulary_size, len(words) - 1
        scores, context, place = logprob.take(words), words, np.arange(1, len(words) + 1)
        for _ in range(context_length):
            if len(place) and place[-1] > last:
                place, context = place[:-1], context[:-1]
            wanted = context * V + words.take(place)
            row = keys.searchsorted(wanted)
            listed = (keys.take(row, mode="clip") == wanted).nonzero()[0]
            scores[place] += backoff.take(context)
            place, context = place.take(listed), row.take(listed) + V
            scores[place] = logprob.take(context)
            place += 1
        return scores

    def predict(self, context: Tensor) -> Tensor:
        """(B, N - 1) contexts, oldest word first -> (B, V) log-probabilities in nats of every next word.

        The unigrams are copied once. Then only the words listed after each context are visited.
        """
        backoff = self.logprob.new_zeros(len(context))  # (B,) of all the longer contexts together
        listed = []
        for row in self.suffixes(context).unbind(1)[::-1]:
            begin = torch.searchsorted(self.keys, row * self.vocabulary_size)
            count = torch.searchsorted(self.keys, (row + 1) * self.vocabulary_size) - begin
            which, place = ranges(begin, count)  # (listed words,)
            word = self.keys[place] % self.vocabulary_size
            listed.append((which, word, self.logprob[place + self.vocabulary_size] + backoff[which]))
            backoff = backoff + self.backoff[row].where(row >= 0, 0.0)
        logprobs = self.logprob[: self.vocabulary_size] + backoff[:, None]  # (B, V)
        for which, word, logprob in reversed(listed):
            logprobs[which, word] = logprob
        return logprobs
