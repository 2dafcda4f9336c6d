"""An inverted index with positions, from which n-grams of any order are counted."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np


class Index:
    """Where each word stands in N documents of T words together, V of them different.

    Attributes:
        names: the names of the documents.
        words: the number of each word.
        tokens: (T,) the numbers of the words of all documents, one after another.
        offsets: (N + 1,) where each document begins, and T.
        lengths: (N,) |d|, the words of each document.
    """

    def __init__(self, names: list[str], words: list[str], lengths: list[int], tokens: np.ndarray):
        self.names, self.lengths, self.tokens = names, np.array(lengths), tokens
        self.words = {word: number for number, word in enumerate(words)}
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self._document = np.repeat(np.arange(len(names), dtype=np.int32), self.lengths)  # (T,)
        self._places = np.argsort(self.tokens, kind="stable")  # (T,) the places of word 0, those of word 1, …
        self._begins = np.searchsorted(self.tokens[self._places], np.arange(len(self.words) + 1))  # (V + 1,)

    @classmethod
    def of(cls, documents: Mapping[str, Iterable[str]]) -> "Index":
        """Of the words of each document."""
        words: dict[str, int] = {}
        numbers = [[words.setdefault(word, len(words)) for word in text] for text in documents.values()]
        tokens = np.array([word for text in numbers for word in text], dtype=np.int32)
        return cls(list(documents), list(words), list(map(len, numbers)), tokens)

    def packed(self) -> bytes:
        """All of it, for `unpacked`."""
        header = json.dumps([self.names, list(self.words), self.lengths.tolist()])
        return header.encode() + b"\n" + self.tokens.astype("<i4").tobytes()

    @classmethod
    def unpacked(cls, data: bytes) -> "Index":
        """The index that `packed` wrote."""
        header, _, tokens = data.partition(b"\n")
        names, words, lengths = json.loads(header)
        return cls(names, words, lengths, np.frombuffer(tokens, dtype="<i4"))

    def numbers(self, text: Iterable[str]) -> list[int]:
        """The numbers of the words of a query; words that no document has are left out."""
        return [self.words[word] for word in text if word in self.words]

    def count(self, gram: Sequence[int]) -> np.ndarray:
        """(N,) how often each document has these words side by side."""
        return self._per_document(self._find(gram))

    def postings(self, word: int) -> tuple[np.ndarray, np.ndarray]:
        """(n,) ascending, the documents that have a word, and (n,) how often."""
        documents, counts, begins = self._postings
        own = slice(begins[word], begins[word + 1])
        return documents[own], counts[own]

    @cached_property
    def _postings(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The documents of word 0, of word 1, …, how often each has it, and (V + 1,) where those of a word begin."""
        documents = self._document[self._places]
        new = np.diff(documents, prepend=-1) != 0
        new[self._begins[:-1]] = True
        first = np.flatnonzero(new)
        return documents[first], np.diff(first, append=len(documents)), np.searchsorted(first, self._begins)

    def followed(self, gram: Sequence[int]) -> np.ndarray:
        """(N,) how often each document has these words with a word after them."""
        return self._per_document(self._with_next(self._find(gram), len(gram)))

    def share(self, word: int) -> float:
        """p(w|C), the relative frequency of a word in the collection."""
        return float(self._begins[word + 1] - self._begins[word]) / len(self.tokens)

    def text(self, document: int) -> np.ndarray:
        """(|d|,) the words of a document."""
        return self.tokens[self.offsets[document] : self.offsets[document + 1]]

    def _find(self, gram: Sequence[int]) -> np.ndarray:
        """The places where these words begin."""
        at = self._places[self._begins[gram[0]] : self._begins[gram[0] + 1]]
        for step, word in enumerate(gram[1:], 1):
            at = self._with_next(at, step)
            at = at[self.tokens[at + step] == word]
        return at

    def _with_next(self, at: np.ndarray, step: int) -> np.ndarray:
        """The places so many words after which the same document goes on."""
        return at[at + step < self.offsets[self._document[at] + 1]]

    def _per_document(self, at: np.ndarray) -> np.ndarray:
        return np.bincount(self._document[at], minlength=len(self.names))
