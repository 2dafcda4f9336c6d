"""Files of word vectors: word2vec's text and binary formats, and GloVe's text."""

from pathlib import Path
from typing import Literal

import numpy as np
import torch

from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import input_stream
from lmzoo.words.vectors.word_vectors import WordVectors

VECTORS = "vectors.bin"
"""The file of a run of ``lmzoo.vectors``, in word2vec's binary format."""

Format = Literal["binary", "text", "glove"]


def encoded(vectors: WordVectors, form: Format) -> bytes:
    """The contents of a file.

    ``text`` and ``binary`` begin with a line "V d". In ``text`` and ``glove`` a line is a word and d numbers. In
    ``binary`` a word and a space come before d little-endian float32.
    """
    matrix = vectors.matrix.float().cpu().numpy()
    header = b"" if form == "glove" else f"{len(matrix)} {matrix.shape[1]}\n".encode()
    words = (word.encode("utf-8", "surrogatepass") for word in vectors.words)
    if form == "binary":
        rows = (word + b" " + row.tobytes() for word, row in zip(words, matrix.astype("<f4"), strict=True))
        return header + b"\n".join(rows) + b"\n"
    rows = (word + b" " + " ".join(map(str, row)).encode() for word, row in zip(words, matrix, strict=True))
    return header + b"\n".join(rows) + b"\n"


def read_vectors(path: Path) -> WordVectors:
    """The vectors of a run's folder, or of a file in any of the formats, which its contents tell.

    Signs � stand for bytes that are not UTF-8. word2vec writes such where it has cut a long word inside a letter. Of
    words that are the same then, the first counts.

    Raises: UserError for a file that cannot be read, or is none of word vectors.
    """
    file = path / VECTORS if path.is_dir() else path
    if path.is_dir() and not file.exists():
        advice = "python -m lmzoo.vectors makes one; with method=type, of a language model"
        raise UserError(f"{path}: has no {VECTORS}", advice)
    with input_stream(file) as stream:
        data = stream.read()
    head = data.partition(b"\n")[0].split()
    try:
        if len(head) != 2 or not (head[0] + head[1]).isdigit():
            return _text(data, None)
        shape = int(head[0]), int(head[1])
        body = data[data.index(b"\n") + 1 :]
        space = body.index(b" ")
        binary = len(body) >= shape[0] * (4 * shape[1] + 2) and not _numeric(body[space + 1 :].split(b"\n", 1)[0])
        return _binary(body, shape) if binary else _text(body, shape)
    except (ValueError, IndexError, OverflowError) as error:
        raise UserError(
            f"{file}: no file of word vectors ({shortened(error)})", "word2vec's formats and GloVe's text can be read"
        ) from None


def _numeric(line: bytes) -> bool:
    try:
        [float(part) for part in line.split()]
    except ValueError:
        return False
    return True


def _text(data: bytes, shape: tuple[int, int] | None) -> WordVectors:
    """Lines of a word and its numbers."""
    lines = data.decode(errors="replace").rstrip("\n").split("\n")
    width = len(lines[0].rstrip().split(" ")) - 1 if shape is None else shape[1]
    if width < 1:
        raise ValueError("line 1 has no numbers")
    words, matrix = [], np.empty((len(lines), width), np.float32)
    for number, line in enumerate(lines):
        word, *numbers = line.rstrip().rsplit(" ", width)
        if len(numbers) != width:
            raise ValueError(f"vector {number + 1} has not {width} numbers")
        words.append(word)
        matrix[number] = [float(value) for value in numbers]
    return _checked(words, matrix, shape)


def _binary(body: bytes, shape: tuple[int, int]) -> WordVectors:
    size, place = 4 * shape[1], 0
    words, matrix = [], np.empty(shape, np.float32)
    for number in range(shape[0]):
        space = body.index(b" ", place)
        words.append(_decoded(body[place:space].lstrip(b"\n")))
        matrix[number] = np.frombuffer(body, "<f4", shape[1], space + 1)
        place = space + 1 + size
    return _checked(words, matrix, shape)


def _decoded(word: bytes) -> str:
    try:
        return word.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return word.decode(errors="replace")


def _checked(words: list[str], matrix: np.ndarray, shape: tuple[int, int] | None) -> WordVectors:
    if shape is not None and shape != matrix.shape:
        raise ValueError(f"{len(words)} vectors where line 1 says {shape[0]}")
    first = {word: row for row, word in reversed([*enumerate(words)])}
    if any("\ufffd" not in word for row, word in enumerate(words) if first[word] != row):
        raise ValueError("a word is there twice")
    if len(first) < len(words):
        rows = sorted(first.values())
        words, matrix = [words[row] for row in rows], matrix[rows]
    if not np.isfinite(matrix).all():
        raise ValueError("a number is not finite")
    return WordVectors(words, torch.from_numpy(matrix))
