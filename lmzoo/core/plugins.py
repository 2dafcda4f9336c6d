"""Modules outside the package that register models."""

import importlib
from collections.abc import Sequence
from importlib.metadata import entry_points

from lmzoo.core.errors import UserError, shortened

GROUP = "lmzoo.models"
"""The entry points by which an installed package offers models: each names a module."""


def load_plugins(names: Sequence[str]) -> None:
    """Import the modules of these names, and those of installed packages; what has been imported stays as it is.

    Raises: UserError for a module that does not exist. A module's own errors pass.
    """
    for name in (*names, *(point.value for point in entry_points(group=GROUP))):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            advice = "install it, or start the command in its folder"
        except (TypeError, ValueError):  # a relative name, an empty one
            advice = "write it as an import does, package.module"
        else:
            continue
        raise UserError(f"plugins={shortened(name)}: no such module", advice)
