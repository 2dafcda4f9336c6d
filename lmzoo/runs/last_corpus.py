"""The corpus that the runs of a sweep share, which is read once."""

from contextvars import ContextVar
from typing import Any

last_corpus: ContextVar[dict[str, Any] | None] = ContextVar("last_corpus", default=None)
"""The last corpus by its options, as JSON; None outside of sweeps, where each is read again."""
