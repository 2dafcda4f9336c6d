"""lmzoo: language models of the pre-transformer lineage, behind one protocol."""

__version__ = "0.1.0"
