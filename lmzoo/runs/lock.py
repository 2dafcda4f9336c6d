"""Locks that allow a single process in a run directory."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from lmzoo.core.errors import UserError


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
