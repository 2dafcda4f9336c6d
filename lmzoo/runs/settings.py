"""The configuration of a run, and the differences between two configurations."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from lmzoo.core.configs import completed, defaults
from lmzoo.core.errors import UserError, shortened
from lmzoo.corpus.corpus import Context

FREE_TO_CHANGE = {"run_dir", "device", "trainer.checkpoint_seconds", "corpus.urls", "corpus.label"}
"""Options that a resumed run may change, since results do not depend on them."""


def with_defaults(config: Any) -> dict[str, Any]:
    """A saved configuration, with the options that model, corpus and trainer have got since then.

    Raises: UserError for what is no configuration of a run.
    """
    if not _is_configuration(config):
        raise UserError("no configuration of a run")
    corpus = completed(config["corpus"], "corpus")
    if (context := corpus.get("context")) not in get_args(Context):
        raise UserError(f"corpus.context={shortened(context)}: must be one of {', '.join(get_args(Context))}")
    since = {"trainer": {**defaults("trainer", "default"), **config["trainer"]}} if "trainer" in config else {}
    return {"plugins": [], **config, "model": completed(config["model"]), "corpus": corpus, **since}


def _is_configuration(config: Any) -> bool:
    groups = [config.get(name) for name in ("model", "corpus")] if isinstance(config, dict) else [None]
    named = all(isinstance(group, dict) and isinstance(group.get("name"), str) for group in groups)
    plugins = config.get("plugins", []) if named else None
    listed = isinstance(plugins, list) and all(isinstance(name, str) for name in plugins)
    return listed and isinstance(config.get("trainer", {}), dict)


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
