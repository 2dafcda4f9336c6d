"""What ``--help`` says of a command that makes runs: its groups, and the options with their values and meanings."""

import itertools
import shutil
import textwrap
from collections.abc import Mapping
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from lmzoo.core.configs import CONFIGS
from lmzoo.core.sentences import sentences

WIDEST, INDENT = 120, 38
"""The columns of a line; where the sentence of an option begins at the latest."""


def options_help(*, _root_: DictConfig) -> str:
    """What ``configs/hydra/help`` has between header and footer; ``$$`` stands for ``$``, as Hydra reads it."""
    config: Any = OmegaConf.to_container(_root_)
    hydra = config.pop("hydra")
    choices = {group: choice for group, choice in sorted(hydra["runtime"]["choices"].items()) if "/" not in group}
    width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
    lines = ["Groups, chosen with group=entry:", ""]
    for group in choices:
        if names := sorted(file.stem for file in (CONFIGS / group).glob("*.yaml")):
            lines += textwrap.wrap(f"{group}: {', '.join(names)}", width, subsequent_indent="  ")
    lines += ["", "Options, set with key=value, their values now, and what they mean:", ""]
    single = {key: value for key, value in config.items() if not isinstance(value, dict)}
    lines += _table(single, "", sentences(f"{hydra['job']['config_name']}.yaml"), width)
    for group, options in config.items():
        if isinstance(options, dict):
            said = sentences(group, options.pop("name", None))
            lines += ["", *textwrap.wrap(f"{group}={choices.get(group)}{_title(group, choices.get(group))}", width)]
            lines += _table(options, f"{group}.", said, width)
    return "\n".join(lines).replace("$", "$$")


def _title(group: str, choice: str | None) -> str:
    """What the file of an entry begins with, after a colon."""
    file = CONFIGS / group / f"{choice}.yaml"
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    comment = itertools.takewhile(lambda line: line.startswith("#"), lines)
    return "".join(f"{'' if number else ':'}{line[1:]}" for number, line in enumerate(comment))


def _table(options: Mapping[str, Any], prefix: str, said: Mapping[str, str], width: int) -> list[str]:
    """A paragraph for each option: its value, and the sentence of a docstring in the words of YAML."""
    rows = {f"{prefix}{name}: {_written(value)}": said.get(name, "") for name, value in options.items()}
    indent = min(INDENT, 3 + max(map(len, rows), default=0))
    lines = list[str]()
    for row, sentence in rows.items():
        sentence = sentence.replace("`", "").replace("None", "null")
        behind = textwrap.wrap(sentence, max(width - indent, 20))
        first = behind.pop(0) if behind and len(row) + 3 <= indent else ""
        lines += [f"{row:{indent}}{first}".rstrip(), *(" " * indent + line for line in behind)]
    return lines


def _written(value: Any) -> str:
    """A value in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=2**16)
    return text.removesuffix("...\n").strip()
