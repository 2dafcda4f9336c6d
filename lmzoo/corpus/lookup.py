"""Vectorized lookup of the words of a text."""

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import count, islice
from threading import Lock
from typing import Self

import numpy as np
import torch

from lmzoo.numerics.hashing import ODD, HashTable
from lmzoo.numerics.sparse import ranges

BLOCK = 2**20
"""The approximate number of bytes looked up at once."""

CHUNKS = 4
"""Words of 8 · CHUNKS bytes or more are looked up one at a time."""

SPACE = re.compile(rb"[\t-\r\x1c- ]")
WIDE_SPACE = re.compile(
    rb"\xc2[\x85\xa0]|\xe1\x9a\x80|\xe2\x80[\x80-\x8a\xa8\xa9\xaf]|\xe2\x81\x9f|\xe3\x80\x80"  # U+0085 … U+3000
)
"""With `SPACE`, all white space of `str.split` in UTF-8."""

DISTINCT = 2**20
"""The maximum number of distinct words whose pieces are cached, about."""

KEEP = np.frombuffer(b"".join(b"\xff" * n + b"\0" * (8 - n) for n in range(9)), np.int64)
FILL = np.frombuffer(b"".join(b"\0" * n + b" " * (8 - n) for n in range(9)), np.int64)
"""For n = 0 … 8 bytes of a word in a chunk of eight: a mask of them, and spaces for the other bytes."""


def blocks(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Split a text into blocks that do not end inside a word, each with its offset."""
    begin = 0
    while begin < len(text):
        space = SPACE.search(text, begin + BLOCK)
        end = len(text) if space is None else space.end()
        yield begin, text[begin:end]
        begin = end


class Words:
    """The words of a text as in `str.split`, and their bytes in chunks of eight.

    The last chunk of a word is padded with at least one space, so the chunks of different words differ.

    Args:
        as_bytes: whether words are those of `bytes.split`, which need not be UTF-8.

    Attributes:
        begin: (W,) offset of each word.
        length: (W,) bytes of each word.
    """

    def __init__(self, text: bytes, as_bytes: bool = False):
        if not (as_bytes or text.isascii()):
            text = WIDE_SPACE.sub(lambda space: b" " * len(space[0]), text)
        self.as_bytes, self.text = as_bytes, b" " + text + b" " * 9
        self.bytes = np.frombuffer(self.text, np.uint8)
        white = self.bytes - np.uint8(9) < 5  # 9 … 13, and 32 or 28 … 32
        white |= self.bytes == ord(" ") if as_bytes else self.bytes - np.uint8(28) < 5
        edges = np.flatnonzero(white[1:] != white[:-1])
        self.begin = edges[::2].copy()
        self.length = edges[1::2] - self.begin

    def chunk(self, k: int, which: np.ndarray | slice) -> np.ndarray:
        """The k-th chunk of eight bytes of words that have at least 8k bytes."""
        inside = np.minimum(self.length[which] - 8 * k, 8)
        eight = np.ndarray(len(self.bytes) - 7, np.int64, self.text, strides=(1,))  # the bytes from each offset on
        return eight[self.begin[which] + 8 * k + 1] & KEEP[inside] | FILL[inside]

    def select(self, which: np.ndarray) -> Self:
        """Some of the words."""
        some = copy(self)
        some.begin, some.length = self.begin[which], self.length[which]
        return some

    def line_ends(self) -> np.ndarray:
        """(L,) number of words before each line feed."""
        return np.searchsorted(self.begin, np.flatnonzero(self.bytes == ord("\n")) - 1)

    def __getitem__(self, which: np.ndarray) -> list[str]:
        """The selected words."""
        length = self.length[which] + 1  # including the space after it
        shift = self.begin[which] + 1 - (length.cumsum() - length)
        cut = self.bytes[np.arange(length.sum()) + shift.repeat(length)]
        if self.as_bytes:
            return [word.decode("utf-8", "surrogateescape") for word in cut.tobytes().split()]
        return cut.tobytes().decode("utf-8", "surrogatepass").split()


class WordTable:
    """A hash table from words to their indices.

    Words of up to seven bytes are their own hash keys. The key of a longer word is a hash of its chunks; the word found
    by it is compared chunk by chunk, and if they differ, the dictionary decides.

    Args:
        index: the index of each word, without white space.
        as_bytes: as in `Words`.
    """

    def __init__(self, index: Mapping[str, int], as_bytes: bool = False):
        self.index = index
        words = Words("\n".join(index).encode("utf-8", "surrogatepass"), as_bytes)
        self.table = HashTable(torch.from_numpy(self._keys(words)))
        self.numbers = np.array([*index.values(), -1], np.int64)  # the last one for unknown words, at place -1
        self.chunks = np.zeros((CHUNKS, len(index)), np.int64)
        for k in range(CHUNKS):
            which = np.flatnonzero(words.length >= 8 * k)
            self.chunks[k, which] = words.chunk(k, which)

    def find(self, words: Words) -> np.ndarray:
        """(W,) int64 indices of words; -1 for unknown words."""
        place = self.table.find(torch.from_numpy(self._keys(words))).numpy()
        numbers = self.numbers[place]
        unsure, which = words.length >= 8 * CHUNKS, np.flatnonzero((words.length >= 8) & (place >= 0))
        for k in range(CHUNKS):
            unsure[which] |= words.chunk(k, which) != self.chunks[k, place[which]]
            which = which[words.length[which] >= 8 * (k + 1)]
        unsure = np.flatnonzero(unsure)
        numbers[unsure] = [self.index.get(word, -1) for word in words[unsure]]
        return numbers

    @staticmethod
    def _keys(words: Words) -> np.ndarray:
        """(W,) int64 keys, unique for words of up to seven bytes, and different from those of longer words."""
        keys, which = words.chunk(0, slice(None)), np.flatnonzero(words.length >= 8)
        for k in range(1, CHUNKS):
            keys[which] = (keys[which] ^ (keys[which] >> 29)) * ODD + words.chunk(k, which)
            keys[which] &= KEEP[7]  # the last byte of a short word's key is a space
            which = which[words.length[which] >= 8 * (k + 1)]
        return keys


class GrowingTable:
    """A table that gives the next index to each word that it looks up for the first time.

    Args:
        words: the words with the indices 0, 1, …; new ones are appended.
        others: words that have the index 0, too.
    """

    def __init__(self, words: list[str], others: Iterable[str] = ()):
        index = {word: number for number, word in enumerate(words)} | dict.fromkeys(others, 0)
        self.words, self.index = words, defaultdict(count(len(words)).__next__, index)
        self.others = len(index) - len(words)
        self.table = WordTable(self.index)

    def find(self, words: Words) -> np.ndarray:
        """(W,) int64 indices of words, after adding new ones."""
        if len(self.words) > 2 * len(self.table.numbers):
            self.table = WordTable(self.index)
        numbers = self.table.find(words)
        unlisted = np.flatnonzero(numbers < 0)
        numbers[unlisted] = [*map(self.index.__getitem__, words[unlisted])]
        new = len(self.index) - self.others - len(self.words)  # also those of an interrupted call
        self.words += [*islice(reversed(self.index), new)][::-1]
        return numbers


class PieceTable:
    """The pieces of words, cached; several threads may use it.

    Args:
        cut: computes the indices of the pieces of a word.
    """

    def __init__(self, cut: Callable[[str], Sequence[int]]):
        self.cut, self.lock = cut, Lock()
        self._clear()

    def _clear(self) -> None:
        self.words, self.pieces, self.ends = GrowingTable([]), array("q"), array("q", [0])

    def find(self, words: Words) -> tuple[np.ndarray, np.ndarray]:
        """(P,) the indices of the pieces of W words, and (W + 1,) where those of each word begin, and P."""
        with self.lock:
            if len(self.words.words) > DISTINCT:
                self._clear()
            numbers = self.words.find(words)
            del self.pieces[self.ends[-1] :]  # of an interrupted call
            for word in self.words.words[len(self.ends) - 1 :]:
                self.pieces.extend(self.cut(word))
                self.ends.append(len(self.pieces))
            starts = np.asarray(self.ends)[numbers]  # a copy, as an array with a view cannot grow
            lengths = np.asarray(self.ends)[numbers + 1] - starts
            _, places = ranges(torch.from_numpy(starts), torch.from_numpy(lengths))
            return np.asarray(self.pieces)[places.numpy()], np.append(0, lengths.cumsum())
