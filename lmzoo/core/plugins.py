"""Plug-ins: modules outside the package that register models or other entries.

A plug-in is code. So only the user names plug-ins; loading a run never imports them.
"""

import importlib
import os
import sys
from collections.abc import Iterable
from importlib.metadata import entry_points
from traceback import walk_tb

from lmzoo.core.errors import UserError, error_location, shortened

GROUP = "lmzoo.models"
"""The entry-point group of plug-ins in installed packages; each entry point names a module."""

VARIABLE = "LMZOO_PLUGINS"
"""The environment variable with a comma-separated list of modules."""


def load_plugins(names: Iterable[str] = ()) -> None:
    """Import the plug-ins in ``names``, in `VARIABLE`, and of installed packages.

    Modules are not imported twice. Those named by the user may be in the current folder.

    Raises: UserError if a module does not exist, or raises an error, with its line.
    """
    for point in entry_points(group=GROUP):
        _import(point.value)
    added = "" not in sys.path
    if added:  # at the end, so that the current folder cannot shadow modules
        sys.path.append("")
    try:
        for name in (*split_names(os.environ.get(VARIABLE, "")), *names):
            _import(name)
    finally:
        if added and "" in sys.path:
            sys.path.remove("")


def require_plugins(names: Iterable[str], run: object) -> None:
    """Raise a UserError unless all plug-ins of a run are already imported. None of them is imported for it."""
    load_plugins()
    if missing := [shortened(name) for name in names if name not in sys.modules]:
        names, noun = ",".join(missing), "plug-in" if len(missing) == 1 else "plug-ins"
        advice = f"add --plugins {names}, plugins=[{names}] or {VARIABLE}={names}"
        raise UserError(f"{run}: needs the {noun} {', '.join(missing)}", advice)


def split_names(text: str) -> list[str]:
    """Split a comma-separated list of names."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _import(name: str) -> None:
    option = f"plugins={shortened(name)}"
    if not all(name.split(".")):  # a relative or empty name
        raise UserError(f"{option}: no such module", "write it as an import does, package.module")
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        absent = isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}.")
        modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
        if absent and all(module == __name__ or module.startswith("importlib") for module in modules):  # not inside it
            raise UserError(f"{option}: no such module", "install it, or start the command in its folder") from None
        raise UserError(f"{option}: {error_location(error)}") from error
