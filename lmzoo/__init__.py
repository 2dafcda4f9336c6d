"""lmzoo: language models of the pre-transformer lineage, behind one protocol."""

import importlib

from lmzoo.core.version import __version__

__all__ = ["__version__", "load", "train"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    """`load` and `train`, imported when they are first needed: it takes seconds, and commands import this first."""
    if name == "train":
        return importlib.import_module("lmzoo.train")
    if name == "load":
        return importlib.import_module("lmzoo.api").load
    raise AttributeError(f"module 'lmzoo' has no attribute '{name}'")
