"""lmzoo: language models of the pre-transformer lineage, behind one protocol."""

import importlib
import os
import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and __path__[0] != f"{sys.path[0]}{os.sep}lmzoo":
    del sys.path[0]  # python -m searches the current folder first, which may be a stranger's; see lmzoo/core/plugins.py

from lmzoo.core.version import __version__

__all__ = ["__version__", "load", "train"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    """`load` and `train`, imported when they are first needed: it takes seconds, and commands import this first."""
    if name == "train":
        return importlib.import_module("lmzoo.train")
    if name == "load":
        return importlib.import_module("lmzoo.api").load
    raise AttributeError(f"module 'lmzoo' has no attribute '{name}'")
