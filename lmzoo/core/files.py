"""Files read with errors a user understands, and written whole or not at all."""

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from lmzoo.core.errors import UserError

PIPES = {Path("/dev/stdin"), Path("/dev/fd"), Path("/proc/self/fd")}
"""Where a shell has the pipes between its commands, as of ``<(zcat book.gz)``."""


def sha256(data: bytes) -> str:
    """The hexadecimal SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def read_bytes(path: Path) -> bytes:
    """A file's contents.

    Raises: UserError where it cannot be read, or is a device or a pipe on disk, which might never end.
    """
    try:
        ordinary = path.is_file() or path.is_dir() or not path.exists()
        if not ordinary and not PIPES.intersection((path, path.parent)):
            raise UserError(f"{path}: not an ordinary file", "copy its text into one")
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 text file, an empty line being an empty sentence.

    Raises: UserError for a file that is missing, a folder, unreadable, empty or not UTF-8.
    """
    return text_lines(read_bytes(path), str(path))


def text_lines(data: bytes, where: str) -> list[str]:
    """UTF-8 bytes, with a byte order mark or without -> lines; a UserError where they are empty or not UTF-8."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(f"{where}: not UTF-8 (line {line}, byte {error.start})", "convert it first") from None
    if not text.strip():
        raise UserError(f"{where}: empty", "a split needs at least one line of text")
    return text.removesuffix("\n").split("\n")


@contextlib.contextmanager
def atomic_stream(path: Path) -> Iterator[BinaryIO]:
    """A stream into a file that is there whole or not at all, whoever else writes it at the same time.

    A process that is killed meanwhile leaves a file `.NAME.*.part` behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as stream:
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


@contextlib.contextmanager
def output_stream(path: Path) -> Iterator[BinaryIO]:
    """`atomic_stream` into a file that the user has asked for. A device or a pipe is written to as it is.

    Raises: UserError where it cannot be written.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        special = path.exists() and not path.is_file()
        with path.open("wb") if special else atomic_stream(path) as stream:
            yield stream
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None


def write_output(path: Path, data: bytes) -> None:
    """Write a file through `output_stream`."""
    with output_stream(path) as stream:
        stream.write(data)
