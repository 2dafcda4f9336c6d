"""Configuration files, and defaults of groups."""

import copy
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf

from lmzoo.core.catalogue import entries
from lmzoo.core.files import read_bytes

_PACKAGE = Path(__file__).resolve().parent.parent

CONFIGS = next(path for path in (_PACKAGE / "configs", _PACKAGE.parent / "configs") if path.is_dir())
"""The folder in an installed package, else at the top of the checkout."""


LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""PyYAML's fast parser if it was built with it."""


def parse(text: str) -> Any:
    """Parse the YAML of a configuration; raises as PyYAML and OmegaConf do, and a ValueError for aliases.

    A short text with aliases may expand until memory is full.
    """
    return copy.deepcopy(_parsed(text))


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    """`parse`, cached, as commands parse the same texts repeatedly."""
    if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=LOADER)):
        raise ValueError("it refers to its own parts")
    return OmegaConf.to_container(OmegaConf.create(text))


def saved(folder: str | Path) -> dict[str, Any]:
    """The configuration in the folder of a run, as it was saved; empty if it cannot be read."""
    try:
        config = parse(read_bytes(Path(folder) / "config.yaml").decode())
    except Exception:  # reported when the run is opened
        return {}
    return config if isinstance(config, dict) else {}


def choices(group: str, folders: Sequence[Path] = (CONFIGS,)) -> list[str]:
    """The names in a group of configuration: registered entries, and files in folders."""
    return sorted({*entries(group), *(path.stem for folder in folders for path in (folder / group).glob("*.yaml"))})


def defaults(group: str, name: str) -> dict[str, Any]:
    """The options of an entry of a group, ``defaults("model", "lstm")``: from its file, else from the code."""
    if (file := CONFIGS / group / f"{name}.yaml").exists():
        return parse(file.read_text("utf-8"))
    entry = entries(group)[name]
    return copy.deepcopy({**({"name": name} if entry.named else {}), **entry.defaults})


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Flatten a nested configuration to ``{"model.hidden": 200, …}``."""
    if not isinstance(config, Mapping):
        return {prefix: config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return flat
