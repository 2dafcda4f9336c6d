"""lmzoo: language models of the pre-transformer lineage, behind one protocol."""

from lmzoo.core.version import __version__

__all__ = ["__version__", "load"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str):
    """`load`, imported when it is first needed: it takes seconds, and every command imports this package first."""
    if name != "load":
        raise AttributeError(f"module 'lmzoo' has no attribute '{name}'")
    from lmzoo.api import load

    return load
