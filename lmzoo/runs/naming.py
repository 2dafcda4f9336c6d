"""The folder of a run whose folder is not named: ``outputs/CORPUS/MODEL``, or ``outputs/CORPUS/MODEL-HASH``."""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from lmzoo.core.configs import LARGEST
from lmzoo.core.errors import UserError
from lmzoo.core.files import read_bytes
from lmzoo.corpus import corpus_label
from lmzoo.runs.directory import Run
from lmzoo.runs.identity import FREE_TO_CHANGE, differences, effective, unlike_defaults, without_effect
from lmzoo.runs.kinds import kind_of
from lmzoo.runs.listing import CONFIG, OUTPUTS

LONGEST = 100
"""Signs of a corpus in a path."""


def run_folder(config: Mapping[str, Any]) -> Path:
    """The folder that holds a run of this configuration already, under whatever name; else a new one.

    The hash is that of the options that are unlike the defaults. Where another configuration has that folder, it is
    that of all options.

    Raises: UserError where the folder of that name cannot be read.
    """
    kind = kind_of(config)
    text, learner = config[kind.text], str(config[kind.learner].get("name"))
    corpus = re.sub(r"[^\w.+-]+", "-", corpus_label(text)).lstrip(".")[:LONGEST] or "text"
    unlike = unlike_defaults(config)
    folder = OUTPUTS / corpus / (f"{learner}-{_digest(unlike)[:6]}" if unlike else learner)
    free = not Run(folder).config_file.exists()
    if not free and not differences(Run(folder).config(), config):
        return folder
    formerly = [OUTPUTS / str(text.get("name")), *sorted(OUTPUTS.glob(f"{corpus}.*"))]  # of text.txt.zst: text.txt
    parents = dict.fromkeys([folder.parent, *formerly])
    held = (run for parent in parents for run in _holding(config, parent))
    return next(held, folder if free else folder.with_name(f"{learner}-{_digest(effective(config))[:12]}"))


def _holding(config: Mapping[str, Any], parent: Path) -> Iterator[Path]:
    """The runs of this configuration in a folder. The lines of most others tell, so that few of hundreds are parsed."""
    as_written = {*OmegaConf.to_yaml(OmegaConf.create(dict(config))).splitlines()}
    ours = {*map(_as_whole, as_written)}
    free = {re.sub(r"\w+\.", "  ", key) for key in {*FREE_TO_CHANGE, *without_effect(config), "trainer.precision"}}
    for file in sorted(parent.glob(f"*/{CONFIG}")):
        with contextlib.suppress(UserError):
            lines = {*read_bytes(file, LARGEST).decode(errors="replace").splitlines()}
            theirs = [line for line in lines - as_written if _as_whole(line) not in ours]
            other = any(line.partition(":")[0] not in free and not line.lstrip().startswith("-") for line in theirs)
            if not other and not differences(Run(file.parent).config(), config):
                yield file.parent


def _as_whole(line: str) -> str:
    """A line of YAML in which 5.0 is 5, since the two are equal options."""
    return re.sub(r"(: -?\d+)\.0$", r"\1", line)


def _digest(options: Mapping[str, Any]) -> str:
    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(part) for part in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    pairs = sorted((key, whole(value)) for key, value in options.items())
    return sha256(json.dumps(pairs, default=str).encode()).hexdigest()
