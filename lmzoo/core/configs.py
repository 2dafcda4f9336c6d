"""The folder of configuration, and the defaults of what it names."""

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
"""Inside an installed package, else at the top of the checkout."""


LARGEST = 1 << 16
"""Bytes of a configuration; far more than a run writes."""

DEEPEST = 10
"""Levels of groups and lists; no configuration has as many."""


def parse(text: str) -> Any:
    """The configuration that a YAML text of a run is; what PyYAML and OmegaConf raise for a text that is none.

    A text with references to its own parts is refused, since a short one may stand for one that fills the memory.
    """
    return copy.deepcopy(_parsed(text))


@functools.lru_cache(maxsize=16)
def _parsed(text: str) -> Any:
    """`parse`; a command asks for the same few texts again and again."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > DEEPEST:
            raise ValueError("it refers to its own parts" if depth <= DEEPEST else "its groups are nested too deeply")
    return OmegaConf.to_container(OmegaConf.create(text))


def saved(folder: str | Path) -> dict[str, Any]:
    """The configuration in the folder of a run, as it was written; empty where there is none that can be read."""
    try:
        config = parse(read_bytes(Path(folder) / "config.yaml", LARGEST).decode())
    except Exception:  # what is wrong with the file is told where the run is opened
        return {}
    return config if isinstance(config, dict) else {}


def choices(group: str, folders: Sequence[Path] = (CONFIGS,)) -> list[str]:
    """The names in a group of configuration: the entries of the code, and the files in folders."""
    return sorted({*entries(group), *(path.stem for folder in folders for path in (folder / group).glob("*.yaml"))})


def defaults(group: str, name: str) -> dict[str, Any]:
    """The options of an entry of a group, ``defaults("model", "lstm")``: as a file has them, else the code."""
    if (CONFIGS / group / f"{name}.yaml").exists():
        return copy.deepcopy(_file(group, name))
    entry = entries(group)[name]
    return copy.deepcopy({**({"name": name} if entry.named else {}), **entry.defaults})


@functools.cache
def _file(group: str, name: str) -> Any:
    """The contents of a file of configuration, read once."""
    return OmegaConf.to_container(OmegaConf.load(CONFIGS / group / f"{name}.yaml"))


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """A nested configuration as ``{"model.hidden": 200, …}``."""
    if not isinstance(config, Mapping):
        return {prefix: config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= flatten(value, f"{prefix}.{key}" if prefix else str(key))
    return flat
