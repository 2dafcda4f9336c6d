"""Packages that not everyone has installed."""

import importlib
from typing import Any

from lmzoo.core.errors import UserError


def needed(module: str, what: str, package: str, install: str | None = None) -> Any:
    """A module of a package; a UserError that says what needs it, and how to install it, where it is missing.

    Args:
        install: what pip is to install, where that is not the package itself.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        problem = f"{what} needs {package}, which is not installed"
        raise UserError(problem, f"pip install {install or package}") from None
