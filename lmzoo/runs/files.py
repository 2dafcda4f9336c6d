"""The files of a run: read as far as they can be a run's, written whole or not at all."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from lmzoo.core.checksums import MOST_BYTES
from lmzoo.core.configs import LARGEST
from lmzoo.core.errors import UserError, out_of_memory, own_place
from lmzoo.core.files import atomic_stream, own_lines, read_bytes
from lmzoo.runs.listing import CONFIG


class _Unusable(UserError):  # noqa: N818 - it is one
    """A file of a run that cannot be used, and its name."""


class Files:
    """The files of a run, in the folder ``path``."""

    def __init__(self, path: Path):
        self.path = path

    def place(self, name: str) -> Path:
        """Where a file is that is written as it is; a UserError where a link would lead out of the run."""
        path = self.path
        for part in Path(name).parts:
            path /= part
            if path.is_symlink():
                raise UserError(f"{path}: is a link inside a run, and may lead anywhere", "delete the link")
        return path

    def names(self) -> set[str]:
        """The names of the files in the folder, none where there is no folder."""
        try:
            return {path.name for path in self.path.iterdir()}
        except FileNotFoundError:
            return set()
        except OSError as error:
            raise UserError(f"run_dir={self.path}: cannot be used ({error.strerror})", "choose another") from None

    def lines(self, name: str) -> list[str]:
        """The lines of a file of the run."""
        with self.damaged(name):
            return own_lines(self.read(name))

    def read(self, name: str) -> bytes:
        """A file of the run; a UserError where it is larger than a run writes it, or cannot be read."""
        return read_bytes(self.path / name, LARGEST if name == CONFIG else MOST_BYTES)

    def read_json(self, name: str) -> Any:
        """`read` as JSON."""
        data = self.read(name)
        try:
            value = json.loads(data)
            json.dumps(value, allow_nan=False)  # Infinity, which Python reads, and 1e999
            return value
        except (ValueError, RecursionError) as error:
            raise self.unusable(name, f"damaged ({error})") from None

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """A stream into a file, which is written whole or not at all; an OSError where there is no room or no right."""
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
        """`write` as JSON."""
        self.write(name, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """While the context lasts, what is taken over is of a file of the run, and errors get its name.

        Raises: UserError for every error but one of the system or of memory. Since it may be one of the code, such as
            that of a plug-in, its line is named.
        """
        try:
            yield
        except UserError as error:
            raise (error if isinstance(error, _Unusable) else self.unusable(name, error.problem)) from None
        except Exception as error:
            if isinstance(error, OSError) or out_of_memory(error):
                raise
            raise UserError(
                f"{self.path / name}: cannot be restored: {own_place(error)}",
                "train it again if the file was changed, else correct that line",
            ) from error

    @contextlib.contextmanager
    def damaged(self, name: str) -> Iterator[None]:
        """While the context lasts, a ValueError is a UserError: that a file of the run is damaged."""
        try:
            yield
        except ValueError as error:
            raise self.unusable(name, f"damaged ({error})") from None

    def unusable(self, name: str, reason: str) -> "_Unusable":
        """The error for a file of the run that cannot be used."""
        return _Unusable(f"{self.path / name}: {reason}", "delete the folder to start again, or choose another run_dir")
