"""Modules outside the package that register models.

A plug-in is code. So the user names it, and a run that was made with one does not bring it in.
"""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points

from lmzoo.core.errors import UserError, shortened

GROUP = "lmzoo.models"
"""The entry points by which an installed package offers models: each names a module."""

VARIABLE = "LMZOO_PLUGINS"
"""The environment variable that names modules, parted by commas."""


def load_plugins(names: Iterable[str] = ()) -> None:
    """Import the modules that the user names, here or in `VARIABLE`, and those that installed packages offer.

    What has been imported stays as it is. The modules that the user names may lie in the current folder.

    Raises: UserError for a module that does not exist. A module's own errors pass.
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
        how = f"--plugins NAME, plugins=[NAME] or {VARIABLE}=NAME"
        raise UserError(f"{run}: needs code that only you may name: the plugins {', '.join(missing)}, by {how}")


def named(text: str) -> list[str]:
    """The names in a text that parts them by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
        return
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        advice = "install it, or start the command in its folder"
    except (TypeError, ValueError):  # a relative name, an empty one
        advice = "write it as an import does, package.module"
    raise UserError(f"plugins={shortened(name)}: no such module", advice)


@contextlib.contextmanager
def _current_folder_searched() -> Iterator[None]:
    """A context in which modules are looked for in the current folder, too: last, so that it replaces no other module.

    Commands do not search it otherwise: a stranger's folder could hold a ``yaml.py``.
    """
    added = "" not in sys.path
    if added:
        sys.path.append("")
    try:
        yield
    finally:
        if added and "" in sys.path:
            sys.path.remove("")
