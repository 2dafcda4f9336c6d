"""What every command does with a user's mistake, and how the front door finds one before Hydra does."""

import itertools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from lmzoo import CONFIGS
from lmzoo.errors import UserError
from lmzoo.registry import nearest

INTERRUPTED = 130
"""The exit code after SIGINT or SIGTERM, as shells have it."""


def run_command(main: Callable[[], int]) -> None:
    """Exit with ``main``'s code: 2 after one line on stderr for a user's mistake, 130 for Ctrl-C."""
    try:
        code = main()
        sys.stdout.flush()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def check_overrides(arguments: Sequence[str], configs: Path = CONFIGS) -> None:
    """Find a misspelt group, choice or option among a command line's overrides.

    Hydra would find most of them too, but answers with the hint to add ``+``, which only moves the
    mistake. Options of Hydra itself are Hydra's affair.

    Raises: UserError naming the nearest option or choice there is.
    """
    if any(argument.startswith("--config") or argument in ("-cd", "-cn", "-cp") for argument in arguments):
        return
    overrides = [_parse(argument) for argument in arguments if not argument.startswith("-")]
    overrides = [override for override in overrides if not override.key_or_group.startswith("hydra")]
    groups = {path.name for path in configs.iterdir() if path.is_dir() and path.name != "hydra"}
    choices: dict[str, list[str]] = {}
    for override in overrides:
        if override.key_or_group in groups:
            choices[override.key_or_group] = _choices(override, configs)
    with initialize_config_dir(str(configs), version_base="1.3"):
        for combination in itertools.product(*choices.values()):
            try:
                config = compose("train", [f"{k}={v}" for k, v in zip(choices, combination, strict=True)])
            except (HydraException, OmegaConfBaseException) as error:
                raise UserError(" ".join(str(error).split())) from None
            for override in overrides:
                if override.key_or_group not in groups:
                    _require_key(override.key_or_group, config, groups)


def _parse(argument: str) -> Override:
    if "=" not in argument and not argument.startswith("~"):
        raise UserError(f"'{argument}': write options as key=value, such as model=lstm or optimizer.lr=0.01")
    try:
        return OverridesParser.create().parse_overrides([argument])[0]
    except HydraException as error:
        raise UserError(f"'{argument}': cannot be read ({str(error).splitlines()[0]}); quote special signs") from None


def _choices(override: Override, configs: Path) -> list[str]:
    """The choices of a group that an override names, each of which must exist."""
    group = override.key_or_group
    if override.is_delete():
        raise UserError(f"~{group}: the group cannot be removed; choose one of its entries")
    values = list(override.sweep_string_iterator()) if override.is_sweep_override() else [override.value()]
    available = [path.stem for path in (configs / group).glob("*.yaml")]
    for value in values:
        if value is not None and str(value) not in available:
            raise UserError(f"{group}={value}: no such {group}{nearest(str(value), available)}")
    return [str(value) if value is not None else "null" for value in values]


def _require_key(key: str, config: DictConfig, groups: set[str]) -> None:
    """Raise a UserError unless the configuration has the option already."""
    node: Any = config
    parts = key.split(".")
    for depth, part in enumerate(parts):
        if not isinstance(node, DictConfig) or part not in node:
            names = [str(name) for name in node] if isinstance(node, DictConfig) else []
            names = [".".join([*parts[:depth], name]) for name in names]
            raise UserError(f"{key}: no such option{nearest(key, {*names, *(groups if depth == 0 else ())})}")
        node = node._get_node(part)
