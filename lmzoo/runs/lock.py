"""One process at a time in a run directory."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from lmzoo.core.errors import UserError


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes of ours out of a folder, where its file system can lock one; a death unlocks it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            taken = False
        except OSError as error:
            taken = isinstance(error, BlockingIOError)  # NFS, for one, locks only what it may write
        if taken or not os.path.samestat(os.fstat(handle), folder.stat()):  # or it was removed and made anew
            raise UserError(f"run_dir={folder}: another process is training here", "choose another run_dir")
        yield
    finally:
        os.close(handle)
