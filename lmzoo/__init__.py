"""lmzoo: language models of the pre-transformer lineage, behind one protocol."""

from lmzoo.core.version import __version__
from lmzoo.runs.loading import load

__all__ = ["__version__", "load"]
