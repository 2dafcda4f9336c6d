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

    def __init__(self, names: list[str], words: list[str], lengths: list[int], tokens: np.ndarray,
                 posted: np.ndarray, first: list[int]):  # fmt: skip
        self.names, self.lengths, self.tokens = names, np.array(lengths), tokens
        self.words = {word: number for number, word in enumerate(words)}
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self._posted = posted  # (2, P) the documents of word 0, of word 1, …, and how often each has it
        self._first = first  # V + 1, where those of each word begin

    @classmethod
    def of(cls, documents: Mapping[str, Iterable[str]]) -> "Index":
        """Of the words of each document."""
        words: dict[str, int] = {}
        texts = [np.array([words.setdefault(word, len(words)) for word in text], "<i4") for text in documents.values()]
        tokens, lengths = np.concatenate(texts), list(map(len, texts))
        places = np.argsort(tokens, kind="stable")
        word, document = tokens[places], np.repeat(np.arange(len(texts), dtype="<i4"), lengths)[places]
        new = np.flatnonzero(np.diff(word, prepend=-1) | np.diff(document, prepend=-1))
        posted = np.stack([document[new], np.diff(new, append=len(tokens)).astype("<i4")])
        first = np.searchsorted(word[new], np.arange(len(words) + 1)).tolist()
        return cls(list(documents), list(words), lengths, tokens, posted, first)

    def packed(self) -> bytes:
        """All of it, for `unpacked`."""
        header = json.dumps([self.names, list(self.words), self.lengths.tolist(), self._first]).encode()
        sizes = np.array([self.tokens.size, self._posted.size], "<i8")
        return b"".join([*(part.tobytes() for part in (sizes, self.tokens, self._posted)), header])

    @classmethod
    def unpacked(cls, data: memoryview) -> "Index":
        """The index that `packed` wrote. Its largest parts stay in ``data``, which may be a mapped file."""
        tokens, posted = np.frombuffer(data, "<i8", 2)
        numbers = np.frombuffer(data, "<i4", tokens + posted, 16)
        names, words, lengths, first = json.loads(bytes(data[16 + numbers.nbytes :]))
        return cls(names, words, lengths, numbers[:tokens], numbers[tokens:].reshape(2, -1), first)

    def numbers(self, text: Iterable[str]) -> list[int]:
        """The numbers of the words of a query; words that no document has are left out."""
        return [self.words[word] for word in text if word in self.words]

    def count(self, gram: Sequence[int]) -> np.ndarray:
        """(N,) how often each document has these words side by side."""
        return self._per_document(self._find(gram))

    def postings(self, word: int) -> tuple[np.ndarray, np.ndarray]:
        """(n,) ascending, the documents that have a word, and (n,) how often."""
        documents, counts = self._posted[:, self._first[word] : self._first[word + 1]]
        return documents, counts

    @cached_property
    def _document(self) -> np.ndarray:
        """(T,) the document of each place."""
        return np.repeat(np.arange(len(self.names), dtype=np.int32), self.lengths)

    @cached_property
    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """(T,) the places of word 0, those of word 1, …, and (V + 1,) where those of each begin."""
        places = np.argsort(self.tokens, kind="stable")
        return places, np.searchsorted(self.tokens[places], np.arange(len(self.words) + 1))

    def followed(self, gram: Sequence[int]) -> np.ndarray:
        """(N,) how often each document has these words with a word after them."""
        return self._per_document(self._with_next(self._find(gram), len(gram)))

    def share(self, word: int) -> float:
        """p(w|C), the relative frequency of a word in the collection."""
        return float(self.postings(word)[1].sum()) / len(self.tokens)

    def text(self, document: int) -> np.ndarray:
        """(|d|,) the words of a document."""
        return self.tokens[self.offsets[document] : self.offsets[document + 1]]

    def _find(self, gram: Sequence[int]) -> np.ndarray:
        """The places where these words begin."""
        places, begins = self._places
        at = places[begins[gram[0]] : begins[gram[0] + 1]]
        for step, word in enumerate(gram[1:], 1):
            at = self._with_next(at, step)
            at = at[self.tokens[at + step] == word]
        return at

    def _with_next(self, at: np.ndarray, step: int) -> np.ndarray:
        """The places so many words after which the same document goes on."""
        return at[at + step < self.offsets[self._document[at] + 1]]

    def _per_document(self, at: np.ndarray) -> np.ndarray:
        return np.bincount(self._document[at], minlength=len(self.names))
