"""Files of a run, read with clear errors and written atomically."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from lmzoo.core.errors import UserError, error_location, out_of_memory
from lmzoo.core.files import atomic_stream, read_bytes, verbatim_lines


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other lmzoo processes, if its file system can; the lock ends with the process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = False
        except OSError as error:
            is_locked = isinstance(error, BlockingIOError)  # NFS, for example, only locks writable files
        if is_locked or not os.path.samestat(os.fstat(handle), folder.stat()):  # or removed and created again
            raise UserError(f"run_dir={folder}: another process is training here", "choose another run_dir")
        yield
    finally:
        os.close(handle)


class _Unusable(UserError):  # noqa: N818 - a UserError, not a new kind
    """A UserError that already contains the name of the unusable file."""


class Files:
    """The files in the folder ``path`` of a run."""

    def __init__(self, path: Path):
        self.path = path

    def names(self) -> set[str]:
        """The names of the files in the folder; empty if it does not exist."""
        try:
            return {path.name for path in self.path.iterdir()}
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise UserError(f"run_dir={self.path}: cannot be used ({error.strerror})", "choose another") from None

    def lines(self, name: str) -> list[str]:
        """The lines of a file of the run."""
        with self.damaged(name):
            return verbatim_lines(self.read(name))

    def read(self, name: str) -> bytes:
        """Read a file of the run; raise a UserError if it is unreadable."""
        return read_bytes(self.path / name)

    def read_json(self, name: str) -> Any:
        """Read a file of the run as JSON."""
        data = self.read(name)
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise self.unusable(name, f"damaged ({error})") from None

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for atomic writing; raise an OSError if the disk is full or the file not writable."""
        try:
            with atomic_stream(self.path / name) as stream:
                yield stream
        except OSError as error:
            error.filename = str(self.path / name)
            raise

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the run as `writing` does."""
        with self.writing(name) as stream:
            stream.write(data)

    def write_json(self, name: str, value: Any) -> None:
        """Write a file of the run as JSON."""
        self.write(name, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Report errors inside the context as errors of a file of the run.

        Raises: UserError for all errors but those of the system or of memory, with the line of code, which may
            be that of a plug-in.
        """
        try:
            yield
        except UserError as error:
            raise (error if isinstance(error, _Unusable) else self.unusable(name, error.problem)) from None
        except Exception as error:
            if isinstance(error, OSError) or out_of_memory(error):
                raise
            raise UserError(
                f"{self.path / name}: cannot be restored: {error_location(error)}",
                "train it again if the file was changed, else correct that line",
            ) from error

    @contextlib.contextmanager
    def damaged(self, name: str) -> Iterator[None]:
        """Report a ValueError inside the context as a UserError that a file of the run is damaged."""
        try:
            yield
        except ValueError as error:
            raise self.unusable(name, f"damaged ({error})") from None

    def unusable(self, name: str, reason: str) -> "_Unusable":
        """The error for a file of the run that cannot be used."""
        return _Unusable(f"{self.path / name}: {reason}", "delete the folder to start again, or choose another run_dir")
