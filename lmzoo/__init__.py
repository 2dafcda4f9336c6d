"""lmzoo: language models of the pre-transformer lineage, behind one protocol."""

from pathlib import Path

__version__ = "0.1.0"

_PACKAGE = Path(__file__).resolve().parent

CONFIGS = next(path for path in (_PACKAGE / "configs", _PACKAGE.parent / "configs") if path.is_dir())
"""The folder of configuration: inside an installed package, else at the top of the checkout."""


from lmzoo.run import load  # noqa: E402 - CONFIGS comes first, for whoever imports it from here

__all__ = ["CONFIGS", "__version__", "load"]
