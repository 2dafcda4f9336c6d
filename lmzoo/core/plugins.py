"""Modules outside the package that register models."""

import importlib.util
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

from lmzoo.core.errors import UserError, shortened

GROUP = "lmzoo.models"
"""The entry points by which an installed package offers models: each names a module."""


def load_plugins(names: Sequence[str], outside: Path | None = None) -> None:
    """Import the modules of these names, and those of installed packages; what has been imported stays as it is.

    Args:
        outside: a folder of data, out of which no module is imported.

    Raises: UserError for a module that does not exist, or is in that folder. A module's own errors pass.
    """
    for name in (*names, *(point.value for point in entry_points(group=GROUP))):
        try:
            if outside is not None:
                _require_outside(name, outside.resolve())
            importlib.import_module(name)
        except UserError:
            raise
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            advice = "install it, or start the command in its folder"
        except (TypeError, ValueError):  # a relative name, an empty one
            advice = "write it as an import does, package.module"
        else:
            continue
        raise UserError(f"plugins={shortened(name)}: no such module", advice)


def _require_outside(name: str, folder: Path) -> None:
    """Raise a UserError for a module in a folder; its parents come first, since Python imports them to find it."""
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        spec = importlib.util.find_spec(".".join(parts[:depth]))
        for place in (spec.origin, *(spec.submodule_search_locations or ())) if spec else ():
            if place and Path(place).resolve().is_relative_to(folder):
                raise UserError(f"plugins={shortened(name)}: is in the run's folder", "a run may not bring code")
