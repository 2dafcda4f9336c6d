"""Words and numbers of a text, beside Python's own."""

import math
import random

import numpy as np
import pytest

from lmzoo.corpus.lookup import WordTable
from lmzoo.models.ngram.fields import Fields, numbers

ODD = [
    "0",
    "-99",
    "-0",
    "1.",
    "-.5",
    ".5",
    "1e-5",
    "-1E+3",
    "inf",
    "nan",
    "-",
    "+",
    "x",
    "1.2.3",
    "1-2",
    "12345678",
    "123456789",
    "1234567.5",
    "123456789012345",
    "--1",
    "+1.5",
    "1.a",
    "0x1",
    "1e",
    "1234567890123456",
    "-0.000000000000001",
    "99999999.99999999",
    "1_0",
    "./",
    "1:2",
    ";1",
    "0.1234567/",
    "0.12345678:",
    "1.7976931348623157e308",
]


def by_python(field: str) -> float:
    try:
        return float(field)
    except ValueError:
        return math.nan


@pytest.mark.parametrize("kind", ["general", "fixed", "shortest", "odd"])
def test_numbers_are_those_of_python_to_the_last_bit(kind: str):
    draw = random.Random(kind)
    fields = {
        "general": lambda: f"{-draw.random() * 10 ** draw.randint(-6, 2):.{draw.randint(0, 12)}g}",
        "fixed": lambda: f"{draw.uniform(-99, 99):.{draw.randint(0, 16)}f}",
        "shortest": lambda: repr(np.float32(-draw.random() * 9).item()),
        "odd": lambda: draw.choice(ODD),
    }
    words = [fields[kind]() for _ in range(5000)] + ODD
    found = numbers(Fields((" ".join(words) + "\n").encode()), np.arange(len(words)))
    np.testing.assert_array_equal(found, [by_python(word) for word in words])
    assert np.array_equal(np.signbit(found), np.signbit([by_python(word) for word in words]))


def test_words_are_those_of_a_dictionary():
    draw = random.Random(0)
    words = list(dict.fromkeys(f"w{i}".encode() * draw.randint(1, 12) for i in range(3000)))
    words += [word.encode() for word in ("a\u00a0b", "\u2028", "\x1c", "\ufffd", "\ufffd" * 12)]  # no spaces of bytes
    asked = [draw.choice(words) if draw.random() < 0.7 else b"z%d" % i * draw.randint(1, 12) for i in range(5000)]
    asked += [*words[-5:], b"\xff", b"\xff" * 36]
    place = {word: i for i, word in enumerate(words)}
    table = WordTable({word.decode(): i for word, i in place.items()}, as_bytes=True)
    fields = Fields(b" ".join([b"1", *asked]) + b"\n")
    found = table.find(fields.select(np.arange(1, len(asked) + 1)))
    assert found.tolist() == [place.get(word, -1) for word in asked]


def test_fields_are_those_of_split():
    lines = [b"", b" a  b\t", b"\tc", b"d\x0be\x0c f\r", b"\x00 \xff\xfe"]
    found = Fields(b"\n".join(lines) + b"\n")
    assert [found.of_line(i) for i in range(len(lines))] == [line.split() for line in lines]
