"""An inverted index with positions, from which n-grams of any order are counted, and the ranking of documents."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np


class Index:
    """The positions of each word in N documents, which have T words, V of them different.

    Args:
        documents: the words of each document by its name.

    Attributes:
        names: the names of the documents.
        words: the number of each word.
        tokens: (T,) the numbers of the words of all documents, one after another.
        offsets: (N + 1,) where each document begins, and T.
        lengths: (N,) |d|, the words of each document.
    """

    def __init__(self, documents: Mapping[str, Iterable[str]]):
        self.names, self.words = list(documents), dict[str, int]()
        texts = [
            np.array([self.words.setdefault(word, len(self.words)) for word in text], np.int32)
            for text in documents.values()
        ]
        self.tokens, self.lengths = np.concatenate(texts), np.array(list(map(len, texts)))
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self._document = np.repeat(np.arange(len(texts), dtype=np.int32), self.lengths)  # (T,) of each place
        self._places = np.argsort(self.tokens, kind="stable")  # (T,) those of word 0, of word 1, …
        self._begins = np.searchsorted(self.tokens[self._places], np.arange(len(self.words) + 1))
        having, first = self._document[self._places], np.ones(len(self.tokens), bool)
        first[1:] = having[1:] != having[:-1]
        first[self._begins[:-1]] = True
        begins = np.flatnonzero(first)
        counts = np.diff(begins, append=len(first)).astype(np.int32)
        # (P,) documents and (P,) counts of all postings, word after word, and (V + 1,) where those of each begin
        self._postings = having[begins], counts, np.searchsorted(begins, self._begins)

    def numbers(self, text: Iterable[str]) -> list[int]:
        """The numbers of the words of a query; words that no document has are left out."""
        return [self.words[word] for word in text if word in self.words]

    def count(self, gram: Sequence[int], followed: bool = False) -> np.ndarray:
        """(N,) how often each document has these words side by side; ``followed``, with a word after them."""
        at = self._at(gram[0])  # the places where these words begin
        for step, word in enumerate(gram[1:], 1):
            at = self._with_next(at, step)
            at = at[self.tokens[at + step] == word]
        if followed:
            at = self._with_next(at, len(gram))
        return np.bincount(self._document[at], minlength=len(self.names))

    def postings(self, words: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The documents that have each of some words.

        Returns: (n,) documents, ascending for each word; (n,) counts of the word in each; (n,) positions in ``words``.
        """
        *columns, begins = self._postings
        each = [slice(*begins[word : word + 2]) for word in words]
        documents, counts = (np.concatenate([part[:0], *map(part.__getitem__, each)]) for part in columns)
        return documents, counts, np.repeat(np.arange(len(each)), [part.stop - part.start for part in each])

    def documents_with(self, words: Sequence[int]) -> np.ndarray:
        """(n,) ascending, the documents that have at least one of some words."""
        documents = np.sort(self.postings(words)[0], kind="stable")  # merges what ascends: five times as fast
        return documents[np.flatnonzero(np.diff(documents, prepend=-1))]  # np.unique takes ten times as long

    def share(self, word: int) -> float:
        """p(w|C), the relative frequency of a word in the collection."""
        return len(self._at(word)) / len(self.tokens)

    def _at(self, word: int) -> np.ndarray:
        """The places where a word occurs, ascending."""
        return self._places[self._begins[word] : self._begins[word + 1]]

    def _with_next(self, at: np.ndarray, step: int) -> np.ndarray:
        """The places whose document has a word ``step`` places later."""
        return at[at + step < self.offsets[self._document[at] + 1]]


class Scores(NamedTuple):
    """The documents that have a word of a query, and their scores.

    Attributes:
        documents: (n,) their places in the collection, ascending.
        values: (n,) the score of each.
    """

    documents: np.ndarray
    values: np.ndarray

    def best(self, depth: int) -> "Scores":
        """The documents with the highest scores, at most ``depth``, the best first; among equals the first."""
        best = np.arange(len(self.values))
        if len(best) > depth:
            best = np.flatnonzero(self.values >= np.partition(self.values, -depth)[-depth])
        best = best[np.argsort(-self.values[best], kind="stable")][:depth]
        return Scores(self.documents[best], self.values[best])


def ranked(index: Index, scores: Scores, depth: int) -> dict[str, float]:
    """The names and scores of the best documents, as `Scores.best`."""
    best = scores.best(depth)
    return dict(zip(map(index.names.__getitem__, best.documents.tolist()), best.values.tolist(), strict=True))
