"""Brown clusters, kept on disk for later runs."""

import contextlib
import hashlib
import os
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.files import write_atomic
from lmzoo.words.brown import brown_clusters

VERSION = 1
"""A part of the cache's key. Raise it with every change of the clusters that `brown_clusters` finds."""


def cache_folder() -> Path:
    """``$LMZOO_CACHE``, else ``$XDG_CACHE_HOME/lmzoo``, else ``~/.cache/lmzoo``."""
    if named := os.environ.get("LMZOO_CACHE"):
        return Path(named)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "lmzoo"


def cached_brown_clusters(tokens: Tensor, vocabulary_size: int, clusters: int, option: str = "clusters") -> Tensor:
    """`brown_clusters`, kept in `cache_folder`. A cache that cannot be read or written is no error."""
    key = hashlib.sha256(f"{VERSION} {vocabulary_size} {clusters} ".encode() + tokens.cpu().numpy().tobytes())
    name = f"brown-{key.hexdigest()}"
    try:
        digest, _, data = (cache_folder() / name).read_bytes().partition(b"\n")
        if digest == hashlib.sha256(data).hexdigest().encode():
            return torch.from_numpy(np.frombuffer(data, dtype="<i8").copy()).to(tokens.device)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        pass
    found = brown_clusters(tokens, vocabulary_size, clusters, option)
    data = found.cpu().numpy().astype("<i8").tobytes()
    with contextlib.suppress(OSError, RuntimeError):
        cache_folder().mkdir(parents=True, exist_ok=True)
        write_atomic(cache_folder() / name, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    return found
