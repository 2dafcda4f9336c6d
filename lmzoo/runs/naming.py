"""Default run directories: ``outputs/CORPUS/MODEL`` or ``outputs/CORPUS/MODEL-HASH``."""

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from lmzoo.corpus import corpus_label
from lmzoo.runs.configuration import Configuration
from lmzoo.runs.directory import Run
from lmzoo.runs.listing import OUTPUTS

LONGEST = 100
"""The maximum length of the corpus in a path, in characters."""


def run_folder(config: Configuration) -> Path:
    """The default folder of a run with this configuration.

    The hash is that of the options that differ from the defaults, or of all options if another configuration has that
    folder.

    Raises: UserError if a folder of that name cannot be read.
    """
    text, learner = config[config.kind.text], config[config.kind.learner]["name"]
    corpus = re.sub(r"[^\w.+-]+", "-", corpus_label(text)).lstrip(".")[:LONGEST] or "text"
    unlike = config.unlike_defaults
    folder = OUTPUTS / corpus / (f"{learner}-{_digest(unlike)[:6]}" if unlike else learner)
    if Run(folder).config_file.exists() and Run(folder).config().differences(config):
        return folder.with_name(f"{learner}-{_digest(config.result_options)[:12]}")
    return folder


def _digest(options: Mapping[str, Any]) -> str:
    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(part) for part in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    pairs = sorted((key, whole(value)) for key, value in options.items())
    return sha256(json.dumps(pairs, default=str).encode()).hexdigest()
