"""Files of text: one's own, and pinned public copies that are downloaded once."""

import contextlib
import hashlib
import http.client
import os
import secrets
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from lmzoo.errors import UserError

SPLITS = ("train", "valid", "test")


def sha256(data: bytes) -> str:
    """The hexadecimal SHA-256 of some bytes."""
    return hashlib.sha256(data).hexdigest()


def data_folders() -> list[Path]:
    """Folders searched for corpora, in turn: ``$LMZOO_DATA`` where it is set, then ``data``."""
    named = os.environ.get("LMZOO_DATA")
    return [*([Path(named)] if named else []), Path("data")]


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 text file, an empty line being an empty sentence.

    Raises: UserError for a file that is missing, a folder, unreadable, empty or not UTF-8.
    """
    return text_lines(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """A file's contents; a UserError where it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


def text_lines(data: bytes, where: str) -> list[str]:
    """UTF-8 bytes -> lines; a UserError where they are empty or not UTF-8."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(f"{where}: not UTF-8 (line {line}, byte {error.start}); convert it first") from None
    if not text.strip():
        raise UserError(f"{where}: empty; a split needs at least one line of text")
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


def fetch(folder: str, file: str, checksum: str, urls: list[str]) -> bytes:
    """The contents of ``folder/file`` under a data folder, else downloaded there from the first URL that has it.

    Raises: UserError for a file that differs from its pinned checksum, and where nothing has it.
    """
    for root in data_folders():
        path = root / folder / file
        if os.path.lexists(path):
            data = read_bytes(path)
            if sha256(data) != checksum:
                raise UserError(
                    f"{path}: sha256 is {sha256(data)[:12]}…, not the pinned {checksum[:12]}…; "
                    "delete the file to download it again, or use corpus=text for another text"
                )
            return data
    target = data_folders()[0] / folder / file
    reasons = []
    for url in urls:
        try:
            with urllib.request.urlopen(url, timeout=30) as response:
                data = response.read()
        except (OSError, ValueError, http.client.HTTPException) as error:
            reasons.append(str(getattr(error, "reason", error)))
            continue
        if sha256(data) != checksum:
            reasons.append(f"{url} has another sha256")
            continue
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(target, data)
        except OSError as error:
            raise UserError(f"{target}: cannot be written ({error.strerror}); set LMZOO_DATA to a folder") from None
        return data
    raise UserError(
        f"{file} is in none of {', '.join(str(root / folder) for root in data_folders())} and no copy could be "
        f"downloaded ({'; '.join(dict.fromkeys(reasons))}); put the file into {target.parent}, set LMZOO_DATA "
        "to the folder that has it, or use corpus=pydoc, which needs no network"
    )


def fetch_splits(folder: str, files: Mapping[str, str], checksums: Mapping[str, str], urls: list[str]) -> dict:
    """`fetch` for each split; a URL is a pattern with ``{file}`` and ``{split}`` to fill in."""
    data = {}
    for split in SPLITS:
        filled = [url.replace("{file}", files[split]).replace("{split}", split) for url in urls]
        data[split] = fetch(folder, files[split], checksums[split], filled)
    return data
