"""A cache of expensive results on disk."""

import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from lmzoo.core.files import sha256, write_atomic

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """``$LMZOO_CACHE``, else ``$XDG_CACHE_HOME/lmzoo``, else ``~/.cache/lmzoo``."""
    if folder := os.environ.get("LMZOO_CACHE"):
        return Path(folder)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "lmzoo"


def disk_cached(kind: str, key: bytes, compute: Callable[[], bytes]) -> bytes:
    """A result, read from `cache_folder` if cached, else computed, and cached if the folder is writable.

    Args:
        kind: the prefix of the file name.
        key: everything that the result depends on.
    """
    name = f"{kind}-{sha256(key)}"
    try:
        whole = (cache_folder() / name).read_bytes()
        if whole[-64:] == sha256(whole[:-64]).encode():
            return whole[:-64]
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        pass
    data = compute()
    with contextlib.suppress(OSError, RuntimeError):
        cache_folder().mkdir(parents=True, exist_ok=True)
        write_atomic(cache_folder() / name, data + sha256(data).encode())
    return data


@contextlib.contextmanager
def exclusive_lock(name: str) -> Iterator[Path | None]:
    """The path of a file in `cache_folder`, locked for one process at a time; None if the folder is not writable."""
    with contextlib.ExitStack() as stack:
        path = None
        try:
            lock = cache_folder() / f"{name}.lock"
            lock.parent.mkdir(parents=True, exist_ok=True)
            _lock(stack.enter_context(lock.open("ab")), lock)
            path = cache_folder() / name
        except (OSError, RuntimeError) as error:
            log.warning("the cache is not writable (%s); set LMZOO_CACHE to another folder", error)
        yield path


def _lock(stream: BinaryIO, lock: Path) -> None:
    """Wait for the lock and delete partial files; on file systems without locks, do nothing."""
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        log.info("another process is computing %s; its progress bar shows how long it takes", lock.stem)
        fcntl.flock(stream, fcntl.LOCK_EX)
    except OSError:
        return
    for part in lock.parent.glob(f".{lock.stem}.*.part"):
        part.unlink()
