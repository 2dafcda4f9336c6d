"""Files read with errors a user understands, and written whole or not at all."""

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
"""Where a shell has the pipes between its commands, as of ``<(zcat book.gz)``."""

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
"""A decimal number, as files have it."""

LONGEST_WORD = 1 << 20
"""So many bytes without a space or the end of a line are no text, such as a file of zeros."""


PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
"""The first bytes of files that are unpacked as they are read."""

INFLATED, SMALL = 50, 1 << 22
"""A packed file that gives more than so many times its own bytes, and more than a small file, is no text of words."""

FOREIGN = {
    **{sign: (f"{form} once more", "unpack it, and pack it once") for sign, form in PACKED.items()},
    b"BZh": ("bzip2", "unpack it first"),
    b"\xfd7zXZ": ("xz", "unpack it first"),
    b"PK\x03\x04": ("zip", "unpack it first"),
    b"\xff\xfe\0\0": ("UTF-32", "convert it first"),
    b"\xff\xfe": ("UTF-16", "convert it first"),
    b"\xfe\xff": ("UTF-16", "convert it first"),
}
"""The first bytes of files that are taken for texts, what such a file is, and what to do with it."""


def foreign(begin: bytes) -> tuple[str | None, str]:
    """What the first bytes of a file show it to be that is no UTF-8, if they do, and what to do with it."""
    return next((said for sign, said in FOREIGN.items() if begin.startswith(sign)), (None, "convert it first"))


def sha256(data: bytes | memoryview) -> str:
    """The hexadecimal SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


_read: set[tuple[int, int]] | None = None


@contextlib.contextmanager
def inputs_kept() -> Iterator[None]:
    """A context, of one command, in which `output_stream` refuses to replace what `input_stream` has opened."""
    global _read
    before, _read = _read, set()
    try:
        yield
    finally:
        _read = before


def _identity(status: os.stat_result) -> tuple[int, int]:
    """What tells a file from others, whatever names it has."""
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def input_stream(path: Path) -> Iterator[BufferedReader]:
    """A stream from a file that the user names; a UserError where it cannot be read, or may never end, as a device."""
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


def read_bytes(path: Path, most: int) -> bytes:
    """The contents of a file of at most so many bytes; a UserError as `input_stream` has it, and for a larger one."""
    with input_stream(path) as stream:
        if os.fstat(stream.fileno()).st_size > most:
            raise UserError(f"{path}: damaged, as it is larger than {most:,} bytes")
        return stream.read()


def text_bytes(path: Path, of_words: bool = True) -> bytes:
    """The contents of a text, packed or not.

    Raises: UserError as `input_stream` does and, unless characters are words, as `LONGEST_WORD` shows.
    """
    return b"".join(text_blocks(path, of_words=of_words))


Seen = Callable[[bytes, int], None]
"""Called with each block of a text as it is read, and how many bytes of the file are read by then."""


def text_blocks(path: Path, seen: Seen = lambda block, read: None, of_words: bool = True) -> Iterator[bytes]:
    """`text_bytes` in blocks of `LONGEST_WORD` bytes."""
    with input_stream(path) as stream, unpacked(stream, path) as text:
        while block := text.read(LONGEST_WORD):
            if of_words and len(block) == LONGEST_WORD and not re.search(rb"\s", block):
                raise UserError(
                    f"{path}: no text of words, as {LONGEST_WORD:,} bytes of it have no space",
                    "corpus.unit=char has each character as a word",
                )
            seen(block, stream.tell() if stream.seekable() else 0)
            yield block


class _Counted(io.RawIOBase):
    """A stream that counts the bytes that are read from it."""

    def __init__(self, stream: Any):
        self.stream, self.count = stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self.stream.readinto(buffer)
        self.count += size
        return size


class _Unpacked(_Counted):
    """The contents of a packed stream; a UserError where they are out of proportion to it, see `INFLATED`."""

    def __init__(self, contents: Any, packed: _Counted, path: Path):
        super().__init__(contents)
        self.packed, self.path = packed, path

    def readinto(self, buffer: Any) -> int:
        size = super().readinto(buffer)
        if self.count > INFLATED * self.packed.count + SMALL:
            problem = f"{self.path}: more than {INFLATED} times as large once it is unpacked, as no text of words is"
            raise UserError(problem, "unpack it first, if it is meant to be so large")
        return size


@contextlib.contextmanager
def unpacked(stream: BufferedReader, path: Path) -> Iterator[BufferedReader]:
    """Decompress gzip or zstd by magic number; pass other streams through.

    Raises: UserError if the suffix contradicts the content, and as `_Unpacked` does.
    """
    begin = stream.peek(4)
    form = next((form for sign, form in PACKED.items() if begin.startswith(sign)), None)
    named = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix.lower(), form)
    if begin and form != named:
        own = form or foreign(begin)[0]
        raise UserError(f"{path}: is no {named}, as its name says" + (f", but {own}" if own else ""), "rename it")
    if form is None:
        yield stream
        return
    unpack: Callable[..., Any] = gzip.open
    damaged: tuple[type[Exception], ...] = (EOFError, gzip.BadGzipFile, zlib.error)
    if form == "zstd":
        zstd = import_optional("backports.zstd", f"{path}, a file of zstd,", "backports.zstd", "'lmzoo-torch[zstd]'")
        unpack, damaged = zstd.open, (EOFError, zstd.ZstdError)
    packed = _Counted(stream)
    try:
        with unpack(packed) as contents:
            yield BufferedReader(_Unpacked(contents, packed, path))
    except damaged:
        raise UserError(f"{path}: no whole file of {form}", "pack it again") from None


def read_text(path: Path) -> bytes:
    """The UTF-8 text of a file, without byte order marks; a UserError as `text_bytes` and `checked_text` have it."""
    return checked_text(text_bytes(path), str(path))


def read_pieces(path: Path, seen: Seen = lambda block, read: None, of_words: bool = True) -> Iterator[bytes]:
    """`read_text` in pieces, so that a file of any size is read in the memory of a few blocks.

    No piece ends inside a word, or inside a character where those are the words. One in which a line ends has nothing
    behind its last line feed, and the last one ends with a line feed, whether the file does or not.

    Raises: UserError as `read_text` does, at the piece that shows what is wrong; that a text is empty or has no lines,
        at its end; and for a table, whose other columns would be read as words of the text.
    """
    pieces = _checked(_cut(text_blocks(path, seen, of_words), of_words), str(path), of_words)
    for first in itertools.islice(pieces, 1):
        if of_words and _is_table(path, first):
            advice = "write the column that is text into a .txt by itself, or spaces for the tabs of a text"
            raise UserError(f"{path}: is a table, by its name or by as many tabs in each line", advice)
        yield first
    yield from pieces


TABLES = (".csv", ".tsv")
"""Endings of names of tables."""


def _is_table(path: Path, begin: bytes) -> bool:
    """Whether a file's name says so, or its first lines: several with as many tabs each."""
    lines = list(filter(None, map(bytes.strip, begin.split(b"\n")))) if b"\t" in begin else []
    alike = len(lines) > 1 and len({line.count(b"\t") for line in lines}) == 1
    return text_ending(path) in TABLES or (alike and b"\t" in lines[0])


def unpacked_name(path: Path) -> Path:
    """A file's name once it is unpacked: ``A.CSV`` for ``x/A.CSV.gz``."""
    return Path(re.sub(r"(?i)\.(gz|zst)$", "", path.name))


def text_ending(path: Path) -> str:
    """How `unpacked_name` ends, in small letters: ``.csv``."""
    return "".join(re.findall(r"\.[^.]*$", unpacked_name(path).name.lower()))


def checked_text(data: bytes, where: str) -> bytes:
    """UTF-8 without byte order marks; a UserError for an empty text, bytes of none, and a carriage return in a line."""
    return b"".join(_checked([data], where))


def _checked(pieces: Iterable[bytes], where: str, of_words: bool = True) -> Iterator[bytes]:
    """The pieces of a text without byte order marks, which texts that were put together have at the beginning of lines,
    too; errors as `checked_text` has them, of carriage returns where characters are no words.
    """
    line, place, empty, mark = 1, 0, True, codecs.BOM_UTF8
    for piece in pieces:
        piece = piece.removeprefix(mark).replace(b"\n" + codecs.BOM_UTF8, b"\n")
        mark = codecs.BOM_UTF8 if piece.endswith(b"\n") else b""
        try:
            text = piece.decode()
        except UnicodeDecodeError as error:
            begin = b"" if place else piece
            form, advice = foreign(begin)
            line, place = line + piece.count(b"\n", 0, error.start), place + error.start
            problem = f"not UTF-8 (line {line}, byte {place})" + (f" but {form}" if form else "")
            raise UserError(f"{where}: {problem}", advice) from None
        if "\0" in text:
            line += text.count("\n", 0, text.index("\0"))
            advice = "convert it to UTF-8 if it is UTF-16; else take the null bytes out"
            raise UserError(f"{where}: line {line} has a null byte, which is no text", advice)
        if of_words and "\r" in text and (inside := re.search("\r(?=[^\r\n])", text)):
            line += text.count("\n", 0, inside.start())
            advice = "where it ends a line, write a line feed: tr '\\r' '\\n'; else a space"
            raise UserError(f"{where}: line {line} has a carriage return inside", advice)
        empty = empty and (not text or text.isspace())
        line, place = line + piece.count(b"\n"), place + len(piece)
        yield piece
    if empty:
        raise UserError(f"{where}: empty", "it needs at least one line of text")


def _cut(blocks: Iterator[bytes], of_words: bool) -> Iterator[bytes]:
    """Blocks cut anew: behind their last line feed or, where there is none, before their last space.

    Where there is none either, before the last character of a text that is not of words. A carriage return, which may
    end a line, is never the last sign of a piece.
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
    """The lines of `read_text` without their ends, an empty line being an empty sentence."""
    return [line.removesuffix("\r") for line in read_text(path).decode().removesuffix("\n").split("\n")]


def own_lines(data: bytes) -> list[str]:
    """The lines of a file that this package writes, each exactly as it was written; a ValueError for no UTF-8.

    A byte order mark or a carriage return is a part of a line here, unlike in a text of the user's.
    """
    return data.decode().removesuffix("\n").split("\n")


@contextlib.contextmanager
def atomic_stream(path: Path) -> Iterator[BinaryIO]:
    """A stream into a file, which can be read again, that is there whole or not at all, whoever else writes it.

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
    """The file that a path leads to; a UserError for a link to itself, for which `Path.resolve` varies with Python."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UserError(f"{path}: is a symbolic link to itself") from None
    return path.resolve()


@contextlib.contextmanager
def output_stream(path: Path, followed: bool = True) -> Iterator[BinaryIO]:
    """`atomic_stream` into a file that the user has asked for, packed where its name ends in ``.gz``.

    A device or a pipe is written to as it is. A symbolic link stays, and the file that it leads to is written; if it
    is not ``followed``, it is replaced.

    Raises: UserError where it cannot be written, and as `inputs_kept` says.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _read and path.is_file() and _identity(path.stat()) in _read:
            raise UserError(f"{path}: has been read by this command", "name another file to write")
        special = (path.exists() and not path.is_file()) or PIPES.intersection((path, path.parent))
        file = destination(path) if followed else path
        with contextlib.ExitStack() as streams:
            stream = streams.enter_context(path.open("wb") if special and followed else atomic_stream(file))
            if path.suffix.lower() == ".gz":
                stream = streams.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0))
            yield cast(BinaryIO, stream)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None


def write_output(path: Path, data: bytes, followed: bool = True) -> None:
    """Write a file through `output_stream`."""
    with output_stream(path, followed) as stream:
        stream.write(data)
