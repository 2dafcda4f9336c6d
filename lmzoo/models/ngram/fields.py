"""Fields of lines of text, and the numbers in them, found in its bytes without a Python object for each."""

import contextlib
import math

import numpy as np
from numpy.typing import NDArray

from lmzoo.corpus.lookup import Words

LONGEST = 24
"""The most bytes of a field that is read together with others, those of any float64 in its shortest form."""


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

    Short fields are read together, unless one of them is no number.
    """
    begin, length = fields.begin[which] + 1, fields.length[which]
    if (longest := int(length.max(initial=1))) <= LONGEST:
        place = np.arange(longest)
        text = fields.bytes.take(begin[:, None] + place, mode="clip") * (place < length[:, None])
        with contextlib.suppress(ValueError):
            return text.view(f"S{longest}")[:, 0].astype(np.float64)
    values = np.full(len(which), math.nan)
    for i, field in enumerate(which):
        with contextlib.suppress(ValueError):
            values[i] = float(fields.field(field))
    return values
