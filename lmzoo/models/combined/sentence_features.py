"""Features of whole sentences: their length, n-grams of words and of classes, and pairs of words that are apart."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS_ID

LENGTHS = 100
"""Longer sentences share a feature."""

KIND = 1 << 57
"""A key is the number of its kind times this, and below it the words, the classes or the length as one number."""

KINDS = (1 << 63) // KIND
"""So many kinds have keys in int64."""


class Occurrences(NamedTuple):
    """The features of S sentences, one after another; a feature that a sentence has twice is there twice."""

    keys: Tensor
    """(M,) int64."""
    sentences: Tensor
    """(M,) the number of the sentence that each is in."""


class SentenceFeatures:
    """The kinds of features that are chosen.

    Args:
        length: whether the number of words is a feature.
        words: the longest n-grams of words, from unigrams on; `<eos>` stands before and after a sentence. 0: none.
        window: the most places between two words, with others between them, that are a feature together. 0: none.
        class_words: the longest n-grams of clusters, from bigrams on. 0: none.
        class_pairs: whether two clusters, one anywhere before the other but not next to it, are a feature.
        classes: the (V,) cluster of each word in every clustering.
    """

    def __init__(
        self, vocabulary_size: int, *, length: bool, words: int, window: int, class_words: int, class_pairs: bool,
        classes: Tensor,
    ):  # fmt: skip
        self.size, self.length, self.words, self.window = vocabulary_size, length, words, window
        self.class_words, self.class_pairs, self.classes = class_words, class_pairs, classes
        for option, base, longest in (
            ("words", vocabulary_size, words),
            ("class_words", max(map(_size, classes), default=1), class_words),
        ):
            if base**longest >= KIND:
                raise UserError(f"model.{option}={longest}: {base:,}^{longest} n-grams have no numbers", "lower it")
        kinds = length + words + 1 + len(classes) * (max(class_words - 1, 0) + class_pairs)
        if kinds > KINDS:
            made = f"{len(classes)} clusterings make {kinds} kinds of features"
            raise UserError(f"model.clusters: {made}, more than {KINDS}", "name fewer")

    def of(self, tokens: Tensor) -> Iterator[Occurrences]:
        """The features of the sentences of a (N,) text, each closed by `<eos>`, kind by kind."""
        for kind, (keys, sentences) in enumerate(self._kinds(tokens)):
            yield Occurrences(keys + kind * KIND, sentences)

    def _kinds(self, tokens: Tensor) -> Iterator[Occurrences]:
        text = torch.cat([tokens.new_tensor([EOS_ID]), tokens])  # (1 + N,)
        ends = (text == EOS_ID).nonzero()[:, 0]
        sentence = (tokens == EOS_ID).cumsum(0) - (tokens == EOS_ID).long()
        longest = int(ends.diff().max())
        begin = ends[torch.cat([sentence.new_zeros(1), sentence])]  # (1 + N,) the <eos> before each token's sentence
        sentence = torch.cat([sentence.new_full((1,), -1), sentence])
        if self.length:
            yield Occurrences((ends.diff() - 1).clamp(max=LENGTHS), torch.arange(len(ends) - 1))

        def reaching(back: int) -> Tensor:
            """The places of the tokens that are at least so far behind the beginning of their sentence."""
            place = torch.arange(back, len(text))
            return place[(place - back >= begin[back:]) & (place > 0)]

        def ngrams(text: Tensor, base: int, n: int) -> Occurrences:
            last = reaching(n - 1)
            keys = torch.zeros_like(last)
            for back in reversed(range(n)):
                keys = keys * base + text[last - back]
            return Occurrences(keys, sentence[last])

        def pairs(text: Tensor, base: int, farthest: int) -> Occurrences:
            lasts = [(reaching(back), back) for back in range(2, min(farthest, longest) + 1)]
            keys = [text[last - back] * base + text[last] for last, back in lasts]
            empty = text.new_empty(0)
            return Occurrences(torch.cat([empty, *keys]), torch.cat([empty, *(sentence[last] for last, _ in lasts)]))

        for n in range(1, self.words + 1):
            yield ngrams(text, self.size, n)
        yield pairs(text, self.size, self.window)
        for of_word in self.classes:
            for n in range(2, self.class_words + 1):
                yield ngrams(of_word[text], _size(of_word), n)
            if self.class_pairs:
                yield pairs(of_word[text], _size(of_word), LENGTHS)


def _size(of_word: Tensor) -> int:
    return int(of_word.max()) + 1


def frequent(features: SentenceFeatures, texts: list[Tensor], min_count: int) -> Tensor:
    """(F,) the keys, ascending, of the features that occur at least so often in one of the texts."""
    found = []
    for occurrences in zip(*(features.of(text) for text in texts), strict=True):
        counted = [keys.unique(return_counts=True) for keys, _ in occurrences]
        found.append(torch.cat([keys[counts >= min_count] for keys, counts in counted]).unique())
    return torch.cat(found)


class Rows:
    """A sparse matrix of S rows and F columns.

    Args:
        rows, columns, values: (M,) each number's row, in ascending order, its column, and the number.
    """

    def __init__(self, rows: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]):
        self.rows, self.columns, self.values, self.shape = rows, columns, values, shape
        self.begins = torch.searchsorted(rows, torch.arange(shape[0]))

    def transposed(self) -> "Rows":
        """(F, S)."""
        order = self.columns.argsort(stable=True)
        return Rows(self.columns[order], self.rows[order], self.values[order], (self.shape[1], self.shape[0]))

    def times(self, vector: Tensor) -> Tensor:
        """(F,) -> (S,)."""
        if not len(self.columns):
            return vector.new_zeros(self.shape[0])
        bags = F.embedding_bag(
            self.columns, vector[:, None], self.begins, mode="sum", per_sample_weights=self.values
        )  # fmt: skip
        return bags[:, 0]

    def with_column(self, column: Tensor) -> "Rows":
        """(S, F + 1) with the (S,) numbers of one more column."""
        rows, order = torch.cat([self.rows, torch.arange(len(column))]).sort(stable=True)
        columns = torch.cat([self.columns, torch.full((len(column),), self.shape[1])])[order]
        return Rows(rows, columns, torch.cat([self.values, column])[order], (self.shape[0], self.shape[1] + 1))


def matrix(features: SentenceFeatures, keys: Tensor, tokens: Tensor) -> Rows:
    """(S, F) how often each sentence of a text has each feature; F are the (F,) ascending keys."""
    rows, columns = [tokens.new_empty(0)], [tokens.new_empty(0)]
    for own, sentences in features.of(tokens):
        if len(keys):
            place = torch.searchsorted(keys, own).clamp(max=len(keys) - 1)
            known = keys[place] == own
            rows.append(sentences[known])
            columns.append(place[known])
    cells, counts = (torch.cat(rows) * max(len(keys), 1) + torch.cat(columns)).unique(return_counts=True)
    shape = int((tokens == EOS_ID).sum()), len(keys)
    return Rows(cells // max(len(keys), 1), cells % max(len(keys), 1), counts.float(), shape)
