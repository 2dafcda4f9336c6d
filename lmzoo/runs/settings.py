"""The configuration of a run: the differences between two configurations, and the name of a run."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from omegaconf import OmegaConf

FREE_TO_CHANGE = {"run_dir", "device", "trainer.checkpoint_seconds", "corpus.urls"}
"""Options that a resumed run may change, since results do not depend on them."""

NAMED_BY_FOLDER = {"corpus", "model"}
"""Groups whose choices name the folders that a run is in."""


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """A nested configuration as ``{"model.hidden": 200, …}``."""
    if not isinstance(config, Mapping):
        return {prefix: config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return flat


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The options in which two configurations differ, as ``key: old -> new``, without those that are free to change.

    ``trainer.precision=auto`` is whatever a run began with.
    """
    before, after = flatten(old), flatten(new)
    if "trainer.precision" in before and after.get("trainer.precision") == "auto":
        del after["trainer.precision"], before["trainer.precision"]
    keys = [key for key in {**before, **after} if key not in FREE_TO_CHANGE]
    return [
        f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}"
        for key in keys
        if before.get(key, "absent") != after.get(key, "absent")
    ]


def run_name(overrides: Sequence[str]) -> str:
    """The part of a folder's name that tells a run from the default run: ``,`` and its overrides, or nothing.

    Args:
        overrides: ``key=value`` as on the command line, in any order.
    """
    told = sorted(o for o in overrides if o.partition("=")[0] not in FREE_TO_CHANGE | NAMED_BY_FOLDER)
    spelled = ",".join(told)
    spelled = re.sub(r"=(True|False)(?=,|$)", lambda word: word[0].lower(), spelled)  # as a sweep spells them
    name = re.sub(r"[^\w.,=+-]+", "-", spelled)
    if len(name) > 100:
        name = f"{name[:90]}-{sha256(spelled.encode()).hexdigest()[:8]}"
    return f",{name}" if name else ""


OmegaConf.register_new_resolver("run_name", run_name, replace=True)
