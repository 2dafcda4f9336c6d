"""The folder of a run, named by its corpus, its model or method, and what is unlike the defaults."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.corpus import corpus_label
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import KINDS, kind_of
from lmzoo.runs.settings import FREE_TO_CHANGE, decisive, differences, short_names

OUTPUTS = Path("outputs")

LONGEST_NAME = 100
"""Signs of a folder's name."""

_GROUPS = {group for kind in KINDS for group in (kind.text, kind.learner)}

_NAMED_BY_FOLDER = {*_GROUPS, *(f"{group}.name" for group in _GROUPS)}


def telling(config: Mapping[str, Any], usual: Mapping[str, Any], varied: Sequence[str] = ()) -> dict[str, Any]:
    """The options that tell a run from others of its corpus and model, by the last part of their key.

    A key whose last part another key has, too, is written in full. Values that do not fit in a name, such as paths, are
    left out. If they vary, a short hash stands for them. Of the run ``trainer.from`` the folder's name is told.

    Args:
        config, usual: the options of the run, and the defaults, as `flatten` gives them.
        varied: the keys that a sweep varies. They come first, even where a run has the default.
    """
    short = short_names(config)
    unlike = [key for key in config if key not in usual or config[key] != usual[key]]
    told = {}
    for key in sorted({*varied, *unlike}, key=lambda key: (key not in varied, key.startswith("corpus."), key)):
        if key not in config or key in FREE_TO_CHANGE | _NAMED_BY_FOLDER:
            continue
        if _spelled(config[key]) is not None:
            told[short[key]] = config[key]
        elif key in varied:
            told[short[key]] = _digest(config[key])[:6]
        elif key == "trainer.from":
            told[short[key]] = re.sub(r"[^\w+-]+", "-", Path(str(config[key])).name)[:30]
    return told


def run_folder(config: Mapping[str, Any], told: Mapping[str, Any]) -> Path:
    """The folder that holds a run of this configuration already, under whatever name; else a new one.

    Args:
        told: see `telling`. Where another configuration has the folder of that name, a hash is added.

    Raises: UserError where the folder of that name cannot be read.
    """
    kind = kind_of(config)
    text, model = config[kind.text], str(config[kind.learner].get("name"))
    name = ",".join([model, *(f"{key}={_spelled(value)}" for key, value in told.items())])
    hashed = f"-{_digest(sorted(decisive(config).items()))[:8]}"
    if len(name) > LONGEST_NAME:
        name = name[: LONGEST_NAME - len(hashed)].rpartition(",")[0] + hashed
    folder = OUTPUTS / (re.sub(r"[^\w.+-]+", "-", corpus_label(text)).lstrip(".")[:LONGEST_NAME] or "text") / name
    taken = Run(folder).config_file.exists()
    if taken and not differences(Run(folder).config(), config):
        return folder
    parents = dict.fromkeys([folder.parent, OUTPUTS / str(text.get("name"))])
    held = (found for parent in parents for found in _holding(config, parent, model))
    return next(held, folder.with_name(f"{name}{hashed}") if taken else folder)


def _holding(config: Mapping[str, Any], parent: Path, model: str) -> Iterator[Path]:
    """The runs of this configuration among the folders of a model."""
    for file in sorted(parent.glob("*/config.yaml")):
        with contextlib.suppress(UserError):
            if file.parent.name.startswith(model) and not differences(Run(file.parent).config(), config):
                yield file.parent


def _spelled(value: Any) -> str | None:
    """A value as it stands in a name; None where it does not fit."""
    if isinstance(value, list) and len(value) > 1:
        parts = [_spelled(part) for part in value if not isinstance(part, list)]
        return "-".join(map(str, parts)) if len(parts) == len(value) and all(parts) else None
    if isinstance(value, int | float):
        return str(value).lower()
    if value is None:
        return "null"
    return value if isinstance(value, str) and re.fullmatch(r"[\w+-]{1,30}", value) else None


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, default=str).encode()).hexdigest()
