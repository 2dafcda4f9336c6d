"""The version of lmzoo, recorded in results."""

__version__ = "0.2.0"
