"""Reading files with clear errors, and atomic writing."""

import codecs
import contextlib
import errno
import gzip
import hashlib
import io
import itertools
import os
import re
import secrets
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, cast

from lmzoo.core.errors import UserError
from lmzoo.core.extras import import_optional

PIPES = {*map(Path, ("/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"))}
"""Paths of a shell's pipes between commands, such as ``<(zcat book.gz)``."""

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
"""A decimal number in a file."""

BLOCK = 1 << 20
"""Bytes that `Lookahead` reads at a time."""

LONGEST_WORD = 1 << 20
"""The most bytes without whitespace in a text of words; a file of zeros, for example, has more."""


COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""Magic numbers of compression formats that are decompressed on reading."""

INFLATED, SMALL = 50, 1 << 22
"""A compressed file is rejected if it expands by more than this factor and beyond the size of a small file."""

NON_UTF8_FORMATS = {
    **{sign: (f"{form} once more", "decompress it, and compress it once") for sign, form in COMPRESSED.items()},
    b"BZh": ("bzip2", "decompress it first"),
    b"\xfd7zXZ": ("xz", "decompress it first"),
    b"PK\x03\x04": ("zip", "decompress it first"),
    b"\xff\xfe\0\0": ("UTF-32", "convert it first"),
    b"\xff\xfe": ("UTF-16", "convert it first"),
    b"\xfe\xff": ("UTF-16", "convert it first"),
}
"""Magic numbers of files that may be mistaken for texts, with the name of the format and advice."""


def non_utf8_format(begin: bytes) -> tuple[str | None, str]:
    """The format of a file that is not UTF-8, by its magic number, or None, and advice."""
    return next(
        (what for magic, what in NON_UTF8_FORMATS.items() if begin.startswith(magic)), (None, "convert it first")
    )


def sha256(data: bytes) -> str:
    """The hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


_read: set[tuple[int, int]] | None = None


@contextlib.contextmanager
def protect_inputs() -> Iterator[None]:
    """A context for one command, in which `output_stream` refuses to replace files opened by `input_stream`."""
    global _read
    before, _read = _read, set()
    try:
        yield
    finally:
        _read = before


def _identity(status: os.stat_result) -> tuple[int, int]:
    """The identity of a file, whichever name it is opened by."""
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def input_stream(path: Path) -> Iterator[BufferedReader]:
    """Open a user's file; raise a UserError if it is unreadable, or may be endless, such as a device."""
    try:
        ordinary = path.is_file() or path.is_dir() or not path.exists()
        if not ordinary and not PIPES.intersection((path, path.parent)):
            raise UserError(f"{path}: not an ordinary file", "copy its text into one")
        with path.open("rb") as stream:
            if _read is not None:
                _read.add(_identity(os.fstat(stream.fileno())))
            yield stream
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None


class Lookahead:
    """A stream of bytes that can be peeked at; at most a few blocks are in memory."""

    def __init__(self, stream: BufferedReader):
        self.stream, self.held, self.place = stream, b"", 0

    def peek(self, size: int) -> bytes:
        """The next bytes, which are not consumed; fewer at the end."""
        while len(self.held) - self.place < size and (block := self.stream.read(BLOCK)):
            self.held, self.place = self.held[self.place :] + block, 0
        return self.held[self.place : self.place + size]

    def read_exactly(self, size: int) -> bytes:
        """Consume the next bytes; a ValueError if there are fewer."""
        part = self.peek(size)
        if len(part) < size:
            raise ValueError("it is cut")
        self.place += size
        return part

    def read_until(self, end: bytes, most: int) -> bytes:
        """Consume the bytes before ``end``, which is skipped, or all others; a ValueError for more than ``most``."""
        if (found := self.held.find(end, self.place)) < 0:
            part = self.peek(most + 1).partition(end)[0]  # this moves the place
            found = self.place + len(part)
        if found - self.place > most:
            raise ValueError(f"a word or a line has more than {most:,} bytes")
        part, self.place = self.held[self.place : found], min(found + 1, len(self.held))
        return part


def read_bytes(path: Path) -> bytes:
    """Read a file; raise a UserError as `input_stream` does."""
    with input_stream(path) as stream:
        return stream.read()


def text_bytes(path: Path, of_words: bool = True) -> bytes:
    """Read a text, decompressed.

    Raises: UserError as `input_stream` does and, if ``of_words``, without whitespace in `LONGEST_WORD` bytes.
    """
    return b"".join(text_blocks(path, of_words=of_words))


Seen = Callable[[bytes, int], None]
"""A function called with each block of a text, and the number of bytes of the file read by then."""


def text_blocks(path: Path, seen: Seen = lambda block, read: None, of_words: bool = True) -> Iterator[bytes]:
    """`text_bytes` in blocks of `LONGEST_WORD` bytes."""
    with input_stream(path) as stream, decompressed(stream, path) as text:
        while block := text.read(LONGEST_WORD):
            if of_words and len(block) == LONGEST_WORD and not re.search(rb"\s", block):
                raise UserError(
                    f"{path}: no text of words, as {LONGEST_WORD:,} bytes of it contain no space",
                    "set corpus.unit=char for a model of characters",
                )
            seen(block, stream.tell() if stream.seekable() else 0)
            yield block


class _Counted(io.RawIOBase):
    """A stream that counts the bytes read from it.

    Raises: UserError if these are out of proportion to those of the stream that they are decompressed from, `INFLATED`.
    """

    def __init__(self, stream: Any, path: Path, packed: "_Counted | None" = None):
        self.stream, self.path, self.packed, self.count = stream, path, packed, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self.stream.readinto(buffer)
        self.count += size
        if self.packed and self.count > INFLATED * self.packed.count + SMALL:
            problem = f"{self.path}: more than {INFLATED} times as large when decompressed, unlike any text of words"
            raise UserError(problem, "decompress it first, if it is meant to be so large")
        return size


@contextlib.contextmanager
def decompressed(stream: BufferedReader, path: Path) -> Iterator[BufferedReader]:
    """Decompress gzip or zstd by magic number; pass other streams through.

    Raises: UserError if the suffix contradicts the content, and as `_Counted` does.
    """
    begin = stream.peek(4)
    form = next((form for magic, form in COMPRESSED.items() if begin.startswith(magic)), None)
    expected = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower(), form)
    if begin and form != expected:
        own = form or non_utf8_format(begin)[0]
        problem = f"{own}, not {expected}" if own else f"not {expected},"
        raise UserError(f"{path}: is {problem} as its suffix says", "rename it")
    if form is None:
        yield stream
        return
    unpack: Callable[..., Any] = gzip.open
    damaged: tuple[type[Exception], ...] = (EOFError, gzip.BadGzipFile, zlib.error)
    if form == "zstd":
        zstd = import_optional("backports.zstd", f"{path}, a file of zstd,", "backports.zstd", "'lmzoo-torch[zstd]'")
        unpack, damaged = zstd.open, (EOFError, zstd.ZstdError)
    packed = _Counted(stream, path)
    try:
        with unpack(packed) as contents:
            yield BufferedReader(_Counted(contents, path, packed))
    except damaged:
        raise UserError(f"{path}: no whole file of {form}", "pack it again") from None


def read_text(path: Path) -> bytes:
    """Read a UTF-8 text without byte order marks; raises UserError as `text_bytes` and `checked_text` do."""
    return checked_text(text_bytes(path), str(path))


def read_pieces(path: Path, seen: Seen = lambda block, read: None, of_words: bool = True) -> Iterator[bytes]:
    """`read_text` in pieces, for files of any size in constant memory.

    Pieces end at a line feed; inside a line that is longer than a block, at a space or, unless ``of_words``, a
    character. The last piece always ends with a line feed.

    Raises: UserError as `read_text` does, at the piece with the error; at the end if the text is empty; and at the
        start for tables, whose columns would be read as words.
    """
    pieces = _checked(_cut(text_blocks(path, seen, of_words), of_words), str(path), of_words)
    for first in itertools.islice(pieces, 1):
        lines = [line for line in map(bytes.strip, first.split(b"\n")) if line] if b"\t" in first else []
        alike = len(lines) > 1 and len({line.count(b"\t") for line in lines}) == 1
        if of_words and (text_ending(path) in TABLES or (alike and b"\t" in lines[0])):
            advice = "write the column that is text into a .txt by itself, or spaces for the tabs of a text"
            raise UserError(f"{path}: is a table, by its suffix or by the equal number of tabs per line", advice)
        yield first
    yield from pieces


TABLES = (".csv", ".tsv")
"""File name suffixes of tables."""


def decompressed_name(path: Path) -> Path:
    """The file name without compression suffix: ``A.CSV`` for ``x/A.CSV.gz``."""
    return Path(re.sub(r"(?i)\.(gz|zst)$", "", path.name))


def text_ending(path: Path) -> str:
    """The suffix of `decompressed_name` in lower case: ``.csv``."""
    return "".join(re.findall(r"\.[^.]*$", decompressed_name(path).name.lower()))


def checked_text(data: bytes, where: str) -> bytes:
    """Validate UTF-8, without byte order marks; raise a UserError if empty, not UTF-8, or with a CR inside a line."""
    return b"".join(_checked([data], where))


def _checked(pieces: Iterable[bytes], where: str, of_words: bool = True) -> Iterator[bytes]:
    """Validate pieces of a text and drop byte order marks, which concatenated texts also have at the start of lines;
    errors as those of `checked_text`, but carriage returns are allowed unless ``of_words``.
    """
    line, place, empty, mark = 1, 0, True, codecs.BOM_UTF8
    for read in pieces:
        piece = read.removeprefix(mark).replace(b"\n" + codecs.BOM_UTF8, b"\n")
        try:
            text = piece.decode()
        except UnicodeDecodeError as error:
            begin = b"" if place else piece
            form, advice = non_utf8_format(begin)
            line, place = line + piece.count(b"\n", 0, error.start), place + error.start
            place += len(mark) * read.startswith(mark)
            problem = f"not UTF-8 (line {line}, byte {place})" + (f" but {form}" if form else "")
            raise UserError(f"{where}: {problem}", advice) from None
        if "\0" in text:
            line += text.count("\n", 0, text.index("\0"))
            advice = "convert it to UTF-8 if it is UTF-16; else take the null bytes out"
            raise UserError(f"{where}: line {line} has a null byte, which no text has", advice)
        if of_words and "\r" in text and (inside := re.search("\r(?=[^\r\n])", text)):
            line += text.count("\n", 0, inside.start())
            advice = "where it ends a line, write a line feed: tr '\\r' '\\n'; else a space"
            raise UserError(f"{where}: line {line} has a carriage return inside", advice)
        empty = empty and (not text or text.isspace())
        line, place = line + piece.count(b"\n"), place + len(read)
        mark = codecs.BOM_UTF8 if read.endswith(b"\n") else b""
        yield piece
    if empty:
        raise UserError(f"{where}: empty", "it needs at least one line of text")


def _cut(blocks: Iterator[bytes], of_words: bool) -> Iterator[bytes]:
    """Regroup blocks to end after their last line feed or, without one, before their last space.

    Without either, and not ``of_words``, before the last character. A carriage return, which may end a line, never ends
    a piece.
    """
    rest = b""
    for block in blocks:
        block = rest + block
        end = block.rfind(b"\n") + 1
        if not end:
            end = len(block[: max(0, *map(block.rfind, (b" ", b"\t", b"\r", b"\v", b"\f")))].rstrip(b"\r"))
        if not end and not of_words:
            end = next((i for i in range(len(block) - 1, 0, -1) if block[i] & 0xC0 != 0x80), 0)
            end = len(block[:end].rstrip(b"\r"))
        if end:
            yield block[:end]
        rest = block[end:]
    if rest:
        yield rest + b"\n"


def read_lines(path: Path) -> list[str]:
    """The lines of `read_text` without line ends; an empty line is an empty sentence."""
    return [line.removesuffix("\r") for line in read_text(path).decode().removesuffix("\n").split("\n")]


def verbatim_lines(data: bytes) -> list[str]:
    """The lines of a file written by this package, unchanged; raise a ValueError if not UTF-8.

    Byte order marks and carriage returns belong to the lines here, unlike in texts of users.
    """
    return data.decode().removesuffix("\n").split("\n")


@contextlib.contextmanager
def atomic_stream(path: Path) -> Iterator[BinaryIO]:
    """Open a seekable file for atomic writing, also if other processes write it.

    A process that is killed meanwhile leaves a file `.NAME.*.part` behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("x+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file through `atomic_stream`."""
    with atomic_stream(path) as stream:
        stream.write(data)


def destination(path: Path) -> Path:
    """Resolve a path; raise a UserError for a link to itself, where `Path.resolve` depends on the Python version."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UserError(f"{path}: is a symbolic link to itself") from None
    return path.resolve()


@contextlib.contextmanager
def output_stream(path: Path) -> Iterator[BinaryIO]:
    """Open a user's output file with `atomic_stream`, compressed if its name ends in ``.gz``.

    Devices and pipes are written to directly. Of a symbolic link the target is written.

    Raises: UserError if it cannot be written, and as `protect_inputs` does.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _read and path.is_file() and _identity(path.stat()) in _read:
            raise UserError(f"{path}: is an input of this command", "name another file to write")
        special = (path.exists() and not path.is_file()) or PIPES.intersection((path, path.parent))
        with contextlib.ExitStack() as streams:
            stream = streams.enter_context(path.open("wb") if special else atomic_stream(destination(path)))
            if path.suffix.lower() == ".gz":
                stream = streams.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0))
            yield cast(BinaryIO, stream)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None


def write_output(path: Path, data: bytes) -> None:
    """Write a file through `output_stream`."""
    with output_stream(path) as stream:
        stream.write(data)
