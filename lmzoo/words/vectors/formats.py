"""Files of word vectors: word2vec's text and binary formats, GloVe's text, and fastText's models."""

import codecs
import dataclasses
import struct
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import NUMBER, foreign, text_bytes
from lmzoo.core.seals import check_recorded
from lmzoo.words.vectors.fasttext import buckets_of
from lmzoo.words.vectors.word_vectors import WordVectors

VECTORS = "vectors.bin"
"""The file of a run of ``lmzoo vectors``, in word2vec's binary format."""

FASTTEXT = struct.pack("<i", 793712314)
"""The first bytes of a model of fastText."""

Format = Literal["word2vec", "word2vec-text", "glove"]


def encoded(vectors: WordVectors, form: Format) -> bytes:
    """The contents of a file.

    Those of word2vec begin with a line "V d". In ``word2vec-text`` and ``glove`` a line is a word and d numbers. In
    ``word2vec`` a word and a space come before d little-endian float32.

    Raises: UserError where GloVe's format would begin with a byte order mark, which readers drop.
    """
    if form == "glove" and vectors.words[0].startswith("\ufeff"):
        raise UserError("GloVe's format: the first word begins with a byte order mark, which readers would drop",
                        "choose another --format")  # fmt: skip
    matrix = vectors.matrix.float().cpu().numpy().astype("<f4", copy=False)
    header = b"" if form == "glove" else f"{len(matrix)} {matrix.shape[1]}\n".encode()
    words = (word.encode("utf-8", "surrogatepass") for word in vectors.words)
    numbers = (row.tobytes() if form == "word2vec" else " ".join(map(str, row)).encode() for row in matrix)
    return header + b"".join(word + b" " + row + b"\n" for word, row in zip(words, numbers, strict=True))


def read_vectors(path: Path) -> WordVectors:
    """The vectors of a run's folder, or of a file in any of the formats, packed or not; a UserError for none.

    Signs � stand for bytes that are not UTF-8. word2vec writes such where it has cut a long word inside a letter. Of
    words that are the same then, the first counts.
    """
    file = path / VECTORS if path.is_dir() else path
    if path.is_dir() and not file.exists():
        advice = "lmzoo vectors makes one; with method=type, of a language model"
        raise UserError(f"{path}: has no {VECTORS}", advice)
    data, own = text_bytes(file, of_words=False), path.is_dir()
    if own:
        check_recorded(file, data)
    else:
        data = data.removeprefix(codecs.BOM_UTF8)
    head = data.partition(b"\n")[0].split()
    try:
        if data.startswith(FASTTEXT):
            return _fasttext(data)
        if len(head) != 2 or not (head[0] + head[1]).isdigit():
            return _text(data, None)
        shape = int(head[0]), int(head[1])
        body = data[data.index(b"\n") + 1 :]
        as_text = not own and _numeric(body.partition(b"\n")[0], shape[1])
        return _text(body, shape) if as_text else _binary(body, shape)
    except (ValueError, IndexError, OverflowError) as error:
        form, advice = foreign(data)
        known = advice if form else "word2vec's formats, GloVe's text and fastText's models can be read"
        raise UserError(f"{file}: no file of word vectors ({form or shortened(error)})", known) from None


def _numeric(line: bytes, width: int) -> bool:
    """Whether a line is a word and so many numbers, or lacks some of them."""
    try:
        numbers = [float(part) for part in line.replace(b"\t", b" ").rstrip().split(b" ")[1:][-width:]]
    except ValueError:
        return False
    return bool(numbers)


def _text(data: bytes, shape: tuple[int, int] | None) -> WordVectors:
    """Lines of a word and its numbers; a word may have spaces, and no numbers behind them."""
    lines = data.replace(b"\t", b" ").decode(errors="replace").rstrip("\n").split("\n")
    width = len(lines[0].rstrip().split(" ")) - 1 if shape is None else shape[1]
    if width < 1:
        raise ValueError("line 1 has no numbers")
    if shape is not None and len(lines) != shape[0]:
        raise ValueError(f"{len(lines):,} vectors where line 1 says {shape[0]:,}")
    if 2 * len(lines) * width > len(data):  # each is a digit and a space
        raise ValueError(f"there are not {width:,} numbers in each line")
    words, matrix = [], np.empty((len(lines), width), np.float32)
    for number, line in enumerate(lines):
        word, *numbers = line.rstrip().rsplit(" ", width)
        if len(numbers) != width or any(NUMBER.fullmatch(part) for part in word.split(" ")[1:]):
            raise ValueError(f"vector {number + 1} has not {width} numbers")
        words.append(word)
        matrix[number] = [float(value) for value in numbers]
    return _checked(words, matrix)


def _binary(body: bytes, shape: tuple[int, int]) -> WordVectors:
    size, place = 4 * shape[1], 0
    if len(body) < shape[0] * (size + 2):  # each is a letter and a space before its numbers
        raise ValueError(
            f"it is cut, as {shape[0]:,} vectors of {shape[1]:,} numbers need more than its {len(body):,} bytes"
        )
    words, matrix = [], np.empty(shape, np.float32)
    for number in range(shape[0]):
        space = body.index(b" ", place)
        word = body[place:space].lstrip(b"\n")
        if b"\n" in word:
            raise ValueError(f"vector {number} does not end where it should; a word of a binary file holds no space")
        words.append(_decoded(word))
        matrix[number] = np.frombuffer(body, "<f4", shape[1], space + 1)
        place = space + 1 + size
    if body[place:].strip(b"\n"):
        raise ValueError("it goes on after its last vector; a word of a binary file holds no space")
    return _checked(words, matrix)


def _fasttext(data: bytes) -> WordVectors:
    """The words of a model of fastText, version 12, and the means of their vectors and those of their n-grams.

    Little-endian: two int32, twelve int32 and a double of options, the dictionary, whether the matrix is quantised, its
    shape as int64, and its float32: a row for each word, then for each bucket of n-grams. What follows is not read.
    """
    try:
        version, dim, *_, buckets, shortest, longest, _, _ = struct.unpack_from("<13id", data, 4)
        entries, _, _, _, pruned = struct.unpack_from("<3i2q", data, 64)
        place, names = 92, []
        for _ in range(entries):
            end = data.index(b"\0", place)
            if data[end + 9] == 0:  # a word, no label
                names.append(data[place:end])
            place = end + 10
        quantised, rows, width = struct.unpack_from("<?2q", data, place)
    except (ValueError, IndexError, struct.error):
        raise ValueError("fastText's model is cut") from None
    if version != 12:
        raise ValueError(f"fastText's version {version}, not 12")
    if quantised or pruned > 0:
        raise ValueError("fastText's model is quantised, and only one that is not can be read")
    if (rows, width) != (len(names) + buckets, dim) or dim < 1 or buckets < (longest > 0):
        raise ValueError(f"fastText's matrix has {rows:,} x {width:,} numbers")
    if len(data) < place + 17 + 4 * rows * width:
        raise ValueError("fastText's model is cut")
    matrix = np.frombuffer(data, "<f4", rows * width, place + 17).reshape(rows, width)
    if not np.isfinite(matrix).all():
        raise ValueError("a number is not finite")

    def mean(word: str | bytes, *own: int) -> Tensor | None:
        parts = [] if word == b"</s>" else buckets_of(word, shortest, longest, buckets)
        where = [*own, *(len(names) + number for number in parts)]
        return torch.from_numpy(matrix[where].mean(0)) if where else None

    vectors = np.empty((len(names), dim), np.float32)
    for row, name in enumerate(names):
        vectors[row] = mean(name, row)
    return dataclasses.replace(_checked([*map(_decoded, names)], vectors), of_another=mean)


def _decoded(word: bytes) -> str:
    try:
        return word.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return word.decode(errors="replace")


def _checked(words: list[str], matrix: np.ndarray) -> WordVectors:
    if not words:
        raise ValueError("it has no vectors")
    first = {word: row for row, word in reversed([*enumerate(words)])}
    if any("\ufffd" not in word for row, word in enumerate(words) if first[word] != row):
        raise ValueError("a word is there twice")
    if len(first) < len(words):
        rows = sorted(first.values())
        words, matrix = [words[row] for row in rows], matrix[rows]
    if not np.isfinite(matrix).all():
        raise ValueError("a number is not finite")
    return WordVectors(words, torch.from_numpy(matrix))
