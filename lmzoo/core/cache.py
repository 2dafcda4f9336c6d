"""What takes long to compute, kept on disk for later runs."""

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from lmzoo.core.files import write_atomic


def cache_folder() -> Path:
    """``$LMZOO_CACHE``, else ``$XDG_CACHE_HOME/lmzoo``, else ``~/.cache/lmzoo``."""
    if named := os.environ.get("LMZOO_CACHE"):
        return Path(named)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "lmzoo"


def kept(kind: str, given: bytes, compute: Callable[[], bytes]) -> bytes:
    """What is computed of something given, read from `cache_folder` if it is there, else written to it.

    A cache that cannot be read or written is no error.

    Args:
        kind: the first part of the file's name.
        given: all that the result depends on.
    """
    name = f"{kind}-{hashlib.sha256(given).hexdigest()}"
    try:
        digest, _, data = (cache_folder() / name).read_bytes().partition(b"\n")
        if digest == hashlib.sha256(data).hexdigest().encode():
            return data
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        pass
    data = compute()
    with contextlib.suppress(OSError, RuntimeError):
        cache_folder().mkdir(parents=True, exist_ok=True)
        write_atomic(cache_folder() / name, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    return data
