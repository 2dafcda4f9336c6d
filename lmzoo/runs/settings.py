"""The options of a run by name, and the differences between two configurations."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from lmzoo.core.errors import shortened

FREE_TO_CHANGE = {
    "run_dir",
    "device",
    "trainer.checkpoint_seconds",
    "checkpoint_seconds",
    "corpus.urls",
    "corpus.label",
}
"""Options that a resumed run may change, since results do not depend on them."""


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """A nested configuration as ``{"model.hidden": 200, …}``."""
    if not isinstance(config, Mapping):
        return {prefix: config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return flat


def decisive(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration, flattened, without the options that are free to change."""
    return {key: value for key, value in flatten(config).items() if key not in FREE_TO_CHANGE}


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """The last part of each key (``optimizer.lr`` -> ``lr``), or all of it where another key ends alike."""
    keys = list(keys)
    ends = Counter(key.rpartition(".")[2] for key in keys)
    return {key: end if ends[end := key.rpartition(".")[2]] == 1 else key for key in keys}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The options in which two configurations differ, as ``key: old -> new``, without those that are free to change.

    ``trainer.precision=auto`` is whatever a run began with.
    """
    before, after = decisive(old), decisive(new)
    if "trainer.precision" in before and after.get("trainer.precision") == "auto":
        del after["trainer.precision"], before["trainer.precision"]
    return [
        f"{key}: {shortened(before.get(key, 'absent'))} -> {shortened(after.get(key, 'absent'))}"
        for key in {**before, **after}
        if before.get(key, "absent") != after.get(key, "absent")
    ]
