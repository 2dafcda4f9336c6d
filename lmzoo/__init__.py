"""lmzoo: language models of the pre-transformer lineage, behind one protocol."""

import importlib
import os
import sys

if (
    sys.argv[:1] == ["-m"]
    and not sys.flags.safe_path
    and __path__[0] != f"{sys.path[0]}{os.sep}lmzoo"
    # the module that Python was told to run, perhaps behind flags, as in -Bmlmzoo; another program keeps its own folder
    and (_run.partition("m")[2] if (_run := sys.orig_argv[-len(sys.argv)])[:1] == "-" else _run).split(".")[0]
    == __name__
):
    del sys.path[0]  # python -m searches the current folder first, which may be a stranger's; see lmzoo/core/plugins.py

from typing import TYPE_CHECKING, Any

from lmzoo.core.version import __version__

if TYPE_CHECKING:
    from lmzoo.api import compare, load, train
    from lmzoo.page.app import demo

__all__ = ["__version__", "compare", "demo", "load", "train"]

_PLACES = {"demo": "lmzoo.page.app"} | dict.fromkeys(("compare", "load", "train"), "lmzoo.api")


def __getattr__(name: str) -> Any:
    """What `_PLACES` names, imported when it is first needed: that takes seconds, and commands import this first."""
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module 'lmzoo' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
