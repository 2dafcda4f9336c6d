"""Optional dependencies."""

import importlib
from typing import Any

from lmzoo.core.errors import UserError, one_line


def import_optional(module: str, what: str, package: str, install: str | None = None) -> Any:
    """Import a module of an optional package; raise a UserError with the command that installs it if it is missing.

    Args:
        install: the argument of pip, if not the package itself.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if not isinstance(error, ModuleNotFoundError):
            raise UserError(f"{what} needs {package}, which cannot be imported ({one_line(error)})") from None
        problem = f"{what} needs {package}, which is not installed"
        raise UserError(problem, f"pip install {install or package}") from None
