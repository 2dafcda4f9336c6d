"""Fields of lines of text, and the numbers in them, found in its bytes without a Python object for each."""

import contextlib
import math

import numpy as np
from numpy.typing import NDArray

from lmzoo.corpus.lookup import Words

POWERS = 10.0 ** np.arange(16)

LONGEST = 17
"""Bytes of a sign, a point and 15 digits."""


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

    Decimals of up to 15 digits are read together, sign by sign; others by `float`.
    """
    begin, length, text = fields.begin[which] + 1, fields.length[which], fields.bytes
    digits, after = np.zeros((2, len(begin)), np.uint8)  # of these behind the decimal point
    mantissa, point = np.zeros(len(begin), np.int64), np.zeros(len(begin), bool)
    for k in range(min(LONGEST, int(length.max(initial=0)))):
        sign = text.take(begin + k, mode="clip") * (k < length)
        digit = sign - np.uint8(ord("0"))
        is_digit = digit < 10
        mantissa *= 1 + 9 * is_digit.view(np.uint8)
        mantissa += digit * is_digit
        digits += is_digit
        after += is_digit & point
        point |= sign == ord(".")
    first = text[begin]
    signed = (first == ord("-")) | (first == ord("+"))
    ok = (digits > 0) & (digits < len(POWERS)) & (signed + digits + point == length)
    values = mantissa / POWERS[np.minimum(after, 15)]  # of two exact numbers, and so correctly rounded (Clinger 1990)
    np.negative(values, where=first == ord("-"), out=values)
    for i in np.flatnonzero(~ok):
        values[i] = math.nan
        with contextlib.suppress(ValueError):
            values[i] = float(fields.field(which[i]))
    return values
