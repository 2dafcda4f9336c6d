"""The version of lmzoo, which results record."""

__version__ = "0.1.0"
