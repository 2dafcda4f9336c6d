"""Files of word vectors: word2vec's text and binary formats, and GloVe's text."""

import codecs
import logging
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from lmzoo.core.checksums import check_recorded
from lmzoo.core.errors import UserError, pluralize, printable, shortened
from lmzoo.core.files import BLOCK, NUMBER, Lookahead, decompressed, input_stream, non_utf8_format
from lmzoo.core.memory import total_memory
from lmzoo.words.vectors.word_vectors import WordVectors

log = logging.getLogger(__name__)

VECTORS = "vectors.bin"
"""The file of a run of ``lmzoo vectors``, in word2vec's binary format."""

MOST_NUMBERS = 1 << 14
"""The most numbers of a vector that is read."""

LONGEST_WORD = 1 << 16
"""The most bytes of a word."""

LONGEST_LINE = LONGEST_WORD + 32 * MOST_NUMBERS
"""In bytes."""

Format = Literal["word2vec", "word2vec-text", "glove"]


def encoded(vectors: WordVectors, form: Format) -> bytes:
    """The contents of a file.

    Those of word2vec begin with a line "V d". In ``word2vec-text`` and ``glove`` a line is a word and d numbers. In
    ``word2vec`` a word and a space come before d little-endian float32.

    Raises: UserError where GloVe's format would begin with a byte order mark, which readers drop, and for words with a
        space in those of word2vec, where it ends a word.
    """
    if form != "glove" and (spaced := [word for word in vectors.words if " " in word]):
        which = f"{len(spaced):,}, such as '{printable(shortened(spaced[0]))}'"
        advice = "choose --format glove, or leave these words out of the file"
        raise UserError(f"words with a space, which ends a word in word2vec's formats: {which}", advice)
    if form == "glove" and vectors.words[0].startswith("\ufeff"):
        raise UserError("GloVe's format: the first word begins with a byte order mark, which readers would drop",
                        "choose another --format")  # fmt: skip
    matrix = vectors.matrix.float().cpu().numpy().astype("<f4", copy=False)
    header = b"" if form == "glove" else f"{len(matrix)} {matrix.shape[1]}\n".encode()
    words = (word.encode("utf-8", "surrogatepass") for word in vectors.words)
    numbers = (row.tobytes() if form == "word2vec" else " ".join(map(str, row)).encode() for row in matrix)
    return header + b"".join(word + b" " + row + b"\n" for word, row in zip(words, numbers, strict=True))


def read_vectors(path: Path) -> WordVectors:
    """The vectors of a run's folder, or of a file in any of the formats, packed or not.

    Of a word that is there again, the first vector counts; a warning says so. Signs � stand for bytes that are not
    UTF-8. word2vec writes such bytes where it truncates a long word within a character, and then words may be the same
    without a warning.

    Raises: UserError for a file in none of the formats.
    """
    file = path / VECTORS if path.is_dir() else path
    if path.is_dir() and not file.exists():
        advice = "lmzoo vectors makes one; with method=type, of a language model"
        raise UserError(f"{path}: has no {VECTORS}", advice)
    own = path.is_dir()
    if own:
        check_recorded(file)
    with input_stream(file) as stream, decompressed(stream, file) as data:
        source = Lookahead(data)
        begin = source.peek(4)
        try:
            if begin.startswith(codecs.BOM_UTF8) and not own:
                source.read_exactly(len(codecs.BOM_UTF8))
            return _without_repeats(_vectors(source, own), file)
        except (ValueError, OverflowError) as error:
            if isinstance(error, UserError):
                raise
            form, advice = non_utf8_format(begin)
            known = advice if form else "word2vec's formats and GloVe's text can be read, as fastText's .vec"
            raise UserError(f"{file}: not a file of word vectors ({form or shortened(error)})", known) from None


def _vectors(source: Lookahead, own: bool) -> WordVectors:
    """The vectors of a file in any of the formats; a ValueError for another one. Those of a run are binary."""
    head = source.peek(LONGEST_LINE).partition(b"\n")[0].split()
    if len(head) != 2 or not (head[0] + head[1]).isdigit():
        return _text(source, None)
    source.read_until(b"\n", LONGEST_LINE)
    shape = int(head[0]), int(head[1])
    _check_shape(*shape)
    numeric = not own and _numeric(source.peek(LONGEST_LINE).partition(b"\n")[0], shape[1])
    return _text(source, shape) if numeric else _binary(source, shape)


def _check_shape(size: int, width: int) -> None:
    """Raise a ValueError for a matrix that is too large, or has no columns."""
    if not 1 <= width <= MOST_NUMBERS:
        raise ValueError(f"a vector has {width:,} numbers, and 1 to {MOST_NUMBERS:,} are read")
    if 4 * size * width > total_memory():
        raise ValueError(f"{size:,} vectors of {width:,} numbers need more than the memory of this machine")


def _without_repeats(vectors: WordVectors, file: Path) -> WordVectors:
    """The first vector of each word; the log has a warning of words that are there again, but broken ones."""
    rows = {word: row for row, word in reversed([*enumerate(vectors.words)])}  # the first of each
    if len(rows) == len(vectors.words):
        return vectors
    repeated = [row for row, word in enumerate(vectors.words) if rows[word] != row and "\ufffd" not in word]
    if repeated:
        word, more = printable(shortened(vectors.words[repeated[0]])), len(repeated) - 1
        others = f", and {pluralize(more, 'other word')} later" if more else ""
        log.warning("%s, vector %s: '%s' is a duplicate%s; the first vector of a word is used",
                    file, f"{repeated[0] + 1:,}", word, others)  # fmt: skip
    firsts = sorted(rows.values())
    return WordVectors([vectors.words[row] for row in firsts], vectors.matrix[firsts])


def _numeric(line: bytes, width: int) -> bool:
    """Whether a line is a word and so many numbers, or lacks some of them."""
    try:
        numbers = [float(part) for part in line.replace(b"\t", b" ").rstrip().split(b" ")[1:][-width:]]
    except ValueError:
        return False
    return bool(numbers)


def _text(source: Lookahead, shape: tuple[int, int] | None) -> WordVectors:
    """Lines of a word and its numbers; a word may have spaces, and no numbers behind them."""
    words, numbers, blank = [], bytearray(), False
    width = shape[1] if shape else 0
    while source.peek(1):
        line = source.read_until(b"\n", LONGEST_LINE)
        if not line:
            blank = True  # at the end of the file, unless a line follows
            continue
        text = line.replace(b"\t", b" ").decode(errors="replace").rstrip()
        if not words and shape is None:
            width = len(text.split(" ")) - 1
            _check_shape(1, width)
        word, *row = text.rsplit(" ", width)
        if blank or len(row) != width or any(NUMBER.fullmatch(part) for part in word.split(" ")[1:]):
            raise ValueError(f"vector {len(words) + 1} has not {width} numbers")
        words.append(word)
        with np.errstate(over="ignore"):  # a number too large for float32 is refused below, as infinite
            numbers += np.array([float(value) for value in row], "<f4").tobytes()
    if shape is not None and len(words) != shape[0]:
        raise ValueError(f"{len(words):,} vectors where line 1 says {shape[0]:,}")
    return _checked(words, numbers, width)


def _binary(source: Lookahead, shape: tuple[int, int]) -> WordVectors:
    words, numbers = [], bytearray()
    for number in range(shape[0]):
        word = source.read_until(b" ", LONGEST_WORD).lstrip(b"\n")
        if b"\n" in word:
            raise ValueError(f"vector {number} does not end where it should; a word of a binary file holds no space")
        words.append(word.decode(errors="replace"))
        numbers += source.read_exactly(4 * shape[1])
    while rest := source.peek(BLOCK):
        if source.read_exactly(len(rest)).strip(b"\n"):
            raise ValueError("it goes on after its last vector; a word of a binary file holds no space")
    return _checked(words, numbers, shape[1])


def _checked(words: list[str], numbers: bytearray, width: int) -> WordVectors:
    """Word vectors from little-endian float32."""
    if not words:
        raise ValueError("it has no vectors")
    matrix = np.frombuffer(numbers, "<f4").reshape(-1, width)
    if not np.isfinite(matrix).all():
        raise ValueError("a number is not finite")
    return WordVectors(words, torch.from_numpy(matrix))
