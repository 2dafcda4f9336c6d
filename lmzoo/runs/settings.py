"""The options of a run by name."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """A nested configuration as ``{"model.hidden": 200, …}``."""
    if not isinstance(config, Mapping):
        return {prefix: config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return flat


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """The last part of each key (``optimizer.lr`` -> ``lr``), or all of it where another key ends alike."""
    keys = list(keys)
    ends = Counter(key.rpartition(".")[2] for key in keys)
    return {key: end if ends[end := key.rpartition(".")[2]] == 1 else key for key in keys}
