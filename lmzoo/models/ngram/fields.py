"""Words and numbers of many lines of text at once, found in its bytes without a Python object for each."""

import hashlib
import math
import secrets
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from lmzoo.numerics.hashing import HashTable

SPACE = np.isin(np.arange(256), list(b" \t\n\r\v\f"))
"""(256,) bool, the bytes at which `bytes.split` splits."""

PADDING = b" " * 32
"""Bytes after the text, so that eight may be read from each place in it."""

WIDE = 32
"""Longer words, in bytes, are hashed one at a time."""

KEPT = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
"""The mask of the first n of eight bytes."""

RIGHT = np.array([0, *(1 << 8 * (8 - n) for n in range(1, 9))], np.uint64)
"""The factor that moves the first n of eight bytes to the end of the eight."""

LEADING = np.array([int.from_bytes(b"0" * (8 - n), "little") for n in range(9)], np.uint64)
"""The zeros before n digits that make them eight."""

POWERS = 10.0 ** np.arange(16)


class Fields(NamedTuple):
    """The fields of consecutive lines, separated by white space.

    Attributes:
        text: (bytes,) uint8, with `PADDING`.
        begin, end: (fields,) places in the text.
        first: (lines + 1,) the first field of each line; the last number is that of all fields.
    """

    text: NDArray[np.uint8]
    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    first: NDArray[np.int64]

    def of_line(self, line: int) -> list[bytes]:
        """The fields of a line."""
        return [self[field] for field in range(self.first[line], self.first[line + 1])]

    def __getitem__(self, field: int) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.text[self.begin[field] : self.end[field]].tobytes()

    def eight(self, places: NDArray[np.int64]) -> NDArray[np.uint64]:
        """(N,) the eight bytes from each place on, the first of them as the lowest."""
        return np.ndarray(len(self.text) - 7, "<u8", self.text, strides=(1,))[places].astype(np.uint64, copy=False)


def split(text: bytes) -> Fields:
    """Find the fields of a text that ends with a line feed."""
    data = np.frombuffer(text + PADDING, np.uint8)
    space = SPACE[data]
    edges = np.flatnonzero(space[1:] != space[:-1]) + 1
    if not space[0]:
        edges = np.concatenate([[0], edges])
    begin, end = edges[::2], edges[1::2]
    return Fields(data, begin, end, np.concatenate([[0], np.searchsorted(begin, np.flatnonzero(data == ord("\n")))]))


class WordIndex:
    """The places of words in a list, found by 64-bit hashes with a random key.

    Words of up to eight bytes are never confused with each other; a longer one is with a probability of about 2^-64.
    """

    def __init__(self, words: list[bytes]):
        text = split(b" ".join(words) + b"\n")
        while True:
            self.odd = np.uint64(secrets.randbits(64) | 1)
            hashes = self._hashes(text, np.arange(len(words)))
            if len(np.unique(hashes)) == len(words):
                break
        self.table = HashTable(torch.from_numpy(hashes.view(np.int64)))

    def find(self, fields: Fields, which: NDArray[np.int64]) -> torch.Tensor:
        """(N,) fields -> (N,) int64 places of their words in the list; -1 for a word that is not in it."""
        return self.table.find(torch.from_numpy(self._hashes(fields, which).view(np.int64)))

    def _hashes(self, fields: Fields, which: NDArray[np.int64]) -> NDArray[np.uint64]:
        begin = fields.begin[which]
        length = fields.end[which] - begin
        hashes = length.astype(np.uint64) * self.odd
        for done in range(0, min(int(length.max(initial=0)), WIDE), 8):
            left = length - done
            live = slice(None) if done == 0 else np.flatnonzero(left > 0)
            mixed = hashes[live] ^ (fields.eight(begin[live] + done) & KEPT[np.minimum(left[live], 8)])
            mixed *= self.odd
            hashes[live] = mixed ^ (mixed >> np.uint64(32))
        for i in np.flatnonzero(length > WIDE):
            digest = hashlib.blake2b(fields[which[i]], digest_size=8, key=self.odd.tobytes()).digest()
            hashes[i] = int.from_bytes(digest, "little")
        return hashes


def numbers(fields: Fields, which: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N,) fields -> (N,) their numbers, to the last bit as `float` reads them; NaN for a field without one.

    Decimals of up to 15 digits are read eight digits at a time; others by `float`.
    """
    begin, end = fields.begin[which], fields.end[which]
    sign = fields.text[begin]
    begin = begin + ((sign == ord("-")) | (sign == ord("+")))
    length = end - begin
    head = fields.eight(begin)
    point = np.minimum(_place(head, ord(".")), length)  # digits before the decimal point
    after = np.maximum(length - point - 1, 0)
    more = np.minimum(np.maximum(after - 8, 0), 8)
    whole, ok = _digits(head, point)
    fraction, digits = _digits(fields.eight(np.minimum(begin + point + 1, end)), np.minimum(after, 8))
    ok &= digits & (point > 0) & (point + after <= 15)
    ok &= (point == length) | (fields.text[begin + point] == ord("."))
    mantissa = whole.astype(np.float64) * POWERS[np.minimum(after, 8)] + fraction
    if (longer := np.flatnonzero(more)).size:
        rest, digits = _digits(fields.eight(np.minimum(begin[longer] + point[longer] + 9, end[longer])), more[longer])
        ok[longer] &= digits
        mantissa[longer] = mantissa[longer] * POWERS[more[longer]] + rest
    values = mantissa / POWERS[np.minimum(after, 15)]  # of two exact numbers, and so correctly rounded (Clinger 1990)
    np.negative(values, where=sign == ord("-"), out=values)
    for i in np.flatnonzero(~ok):
        values[i] = _number(fields[which[i]])
    return values


def _place(eight: NDArray[np.uint64], byte: int) -> NDArray[np.int64]:
    """(N,) the place of the first such byte among eight; 8 where there is none (Warren 2012, section 6-1)."""
    ones, high = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
    differs = eight ^ (ones * np.uint64(byte))
    zero = (differs - ones) & ~differs & high
    lowest = (zero & (~zero + np.uint64(1))).astype(np.float64)  # a power of two, or 0
    return np.where(zero == 0, 8, (np.frexp(lowest)[1] - 1) >> 3)


def _digits(eight: NDArray[np.uint64], count: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """(N,) the number of the first `count` of eight bytes, and whether they are digits; of none, 0 (Lemire 2021)."""
    u = np.uint64
    count = np.minimum(count, 8)
    text = eight * RIGHT[count] | LEADING[count]
    zeros, high = u(0x3030303030303030), u(0xF0F0F0F0F0F0F0F0)
    ok = ((text & high) == zeros) & (((text + u(0x0606060606060606)) & high) == zeros)
    pairs = text - zeros
    pairs = pairs * u(10) + (pairs >> u(8))  # in each second byte, two digits
    mask = u(0x000000FF000000FF)
    fours = (pairs & mask) * u(100 + (1000000 << 32)) + ((pairs >> u(16)) & mask) * u(1 + (10000 << 32))
    return fours >> u(32), ok


def _number(field: bytes) -> float:
    try:
        return float(field)
    except ValueError:
        return math.nan
