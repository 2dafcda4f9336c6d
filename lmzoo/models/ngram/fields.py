"""Fields of lines of text, and the numbers in them, found in its bytes without a Python object for each."""

import math

import numpy as np
from numpy.typing import NDArray

from lmzoo.corpus.lookup import Words

RIGHT = np.array([0, *(1 << 8 * (8 - n) for n in range(1, 9))], np.uint64)
"""The factor that moves the first n of eight bytes to the end of the eight."""

LEADING = np.array([int.from_bytes(b"0" * (8 - n), "little") for n in range(9)], np.uint64)
"""The zeros before n digits that make them eight."""

POWERS = 10.0 ** np.arange(16)


class Fields(Words):
    """The fields of consecutive lines, separated by white space as in `bytes.split`.

    Args:
        text: whole lines, each with its line feed.

    Attributes:
        first: (lines + 1,) the first field of each line; the last number is that of all fields.
    """

    def __init__(self, text: bytes):
        super().__init__(text, as_bytes=True)
        self.first = np.concatenate([[0], self.line_ends()])

    def of_line(self, line: int) -> list[bytes]:
        """The fields of a line."""
        return [self.field(field) for field in range(self.first[line], self.first[line + 1])]

    def field(self, which: int) -> bytes:
        """The bytes of a field."""
        begin = 1 + self.begin[which]
        return self.text[begin : begin + self.length[which]]


def numbers(fields: Fields, which: NDArray[np.int64]) -> NDArray[np.float64]:
    """(N,) fields -> (N,) their numbers, to the last bit as `float` reads them; NaN for a field without one.

    Decimals of up to 15 digits are read eight digits at a time; others by `float`.
    """
    begin, text = fields.begin[which], fields.bytes[1:]
    end, sign = begin + fields.length[which], text[begin]
    begin = begin + ((sign == ord("-")) | (sign == ord("+")))
    length = end - begin
    head = _eight(fields, begin)
    point = np.minimum(_place(head, ord(".")), length)  # digits before the decimal point
    after = np.maximum(length - point - 1, 0)
    more = np.minimum(np.maximum(after - 8, 0), 8)
    whole, ok = _digits(head, point)
    fraction, digits = _digits(_eight(fields, np.minimum(begin + point + 1, end)), np.minimum(after, 8))
    ok &= digits & (point > 0) & (point + after <= 15)
    ok &= (point == length) | (text[begin + point] == ord("."))
    mantissa = whole.astype(np.float64) * POWERS[np.minimum(after, 8)] + fraction
    if (longer := np.flatnonzero(more)).size:
        places = np.minimum(begin[longer] + point[longer] + 9, end[longer])
        rest, digits = _digits(_eight(fields, places), more[longer])
        ok[longer] &= digits
        mantissa[longer] = mantissa[longer] * POWERS[more[longer]] + rest
    values = mantissa / POWERS[np.minimum(after, 15)]  # of two exact numbers, and so correctly rounded (Clinger 1990)
    np.negative(values, where=sign == ord("-"), out=values)
    for i in np.flatnonzero(~ok):
        values[i] = _number(fields.field(which[i]))
    return values


def _eight(fields: Fields, offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """(N,) the eight bytes from each offset on, the first of them as the lowest."""
    return fields.eight(offsets).view("<u8").astype(np.uint64, copy=False)


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
