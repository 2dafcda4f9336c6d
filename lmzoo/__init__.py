"""lmzoo: language models of the pre-transformer lineage, behind one protocol."""

import importlib
import os
import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and __path__[0] != f"{sys.path[0]}{os.sep}lmzoo":
    del sys.path[0]  # python -m searches the current folder first, which may be a stranger's; see lmzoo/core/plugins.py

from typing import TYPE_CHECKING, Any

from lmzoo.core.version import __version__

if TYPE_CHECKING:
    from lmzoo.api import load, train

__all__ = ["__version__", "load", "train"]


def __getattr__(name: str) -> Any:
    """`load` and `train`, imported when they are first needed: it takes seconds, and commands import this first."""
    if name in __all__:
        return getattr(importlib.import_module("lmzoo.api"), name)
    raise AttributeError(f"module 'lmzoo' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
