"""Modules outside the package that register models, or other things that a configuration names.

A plug-in is code. So the user names it, and a run that was made with one does not bring it in.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from traceback import walk_tb

from lmzoo.core.errors import UserError, own_place, shortened

GROUP = "lmzoo.models"
"""The entry points by which an installed package offers such modules, each of which names one."""

VARIABLE = "LMZOO_PLUGINS"
"""The environment variable that names modules, parted by commas."""


def load_plugins(names: Iterable[str] = ()) -> None:
    """Import the modules that the user names, here or in `VARIABLE`, and those that installed packages offer.

    What has been imported stays as it is. The modules that the user names may lie in the current folder.

    Raises: UserError for a module that does not exist, and for an error of a module, with the line that raises it.
    """
    for point in entry_points(group=GROUP):
        _import(point.value)
    for name in (*named(os.environ.get(VARIABLE, "")), *names):
        with _current_folder_searched():
            _import(name)


def require_plugins(names: Iterable[str], run: object) -> None:
    """Raise a UserError unless the plug-ins that a run was made with are here already. Nothing is imported for it."""
    load_plugins()
    if missing := [shortened(name) for name in names if name not in sys.modules]:
        names, noun = ",".join(missing), "plug-in" if len(missing) == 1 else "plug-ins"
        advice = f"add --plugins {names}, plugins=[{names}] or {VARIABLE}={names}"
        raise UserError(f"{run}: needs the {noun} {', '.join(missing)}", advice)


def named(text: str) -> list[str]:
    """The names in a text that parts them by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _import(name: str) -> None:
    option = f"plugins={shortened(name)}"
    if not all(name.split(".")):  # a relative name, an empty one
        raise UserError(f"{option}: no such module", "write it as an import does, package.module")
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        absent = isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}.")
        if absent and not _inside(error):
            raise UserError(f"{option}: no such module", "install it, or start the command in its folder") from None
        raise UserError(f"{option}: {own_place(error)}") from error


def _inside(error: BaseException) -> bool:
    """Whether an error comes from within a module, and not from the search for it."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    return not all(module == __name__ or module.startswith("importlib") for module in modules)


@contextlib.contextmanager
def _current_folder_searched() -> Iterator[None]:
    """A context in which the current folder is searched, too: last, as a stranger's could hold a ``yaml.py``."""
    added = "" not in sys.path
    if added:
        sys.path.append("")
    try:
        yield
    finally:
        if added and "" in sys.path:
            sys.path.remove("")
