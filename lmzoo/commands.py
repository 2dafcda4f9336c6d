"""What every command does with a user's mistake, and how the front door finds one before Hydra does."""

import argparse
import itertools
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra import compose, initialize_config_dir
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from lmzoo import CONFIGS
from lmzoo.errors import UserError
from lmzoo.registry import nearest
from lmzoo.run import Run

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it, and after any signal on which a run was saved."""


def check_output(file: Path, *inputs: Path) -> None:
    """Before a command writes ``file``.

    Raises: UserError where that is one of the command's ``inputs``, or a part of a run.
    """
    if file.exists() and any(file.samefile(text) for text in inputs if text.exists()):
        raise UserError(f"{file}: is the text to be read; name another file to write")
    if file.exists() and Run(file.parent).config_file.exists():
        raise UserError(f"{file}: is a part of the run in {file.parent}; name another file to write")


def run_command(main: Callable[[], int]) -> None:
    """Exit with ``main``'s code: 2 after one line on stderr for a user's mistake, 130 for Ctrl-C."""
    try:
        code = main()
        sys.stdout.flush()
    except UserError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:  # standard output on a full disk
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: {error}", file=sys.stderr)
        code = 2
    sys.exit(code)


class CommandParser(argparse.ArgumentParser):
    """A command line whose mistakes are UserErrors."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; --help shows what there is")


def one_line(error: Exception) -> str:
    """What an exception says, without line breaks and without Hydra's advice to add what it does not know."""
    return " ".join(re.sub(r"To append to .*", "", str(error)).split()) or type(error).__name__


def run_hydra(job: Callable[[DictConfig], None], config_name: str) -> None:
    """Call ``job`` with the configuration, or one after the other, that the command line asks for.

    Raises: UserError for a mistake on the command line; what a job raises is for the job to catch, as
        Hydra would print it.
    """
    arguments = read_command_line(sys.argv[1:])
    if not (arguments.config_path or arguments.config_name or arguments.config_dir):
        check_overrides(arguments.overrides, config_name, sweep=arguments.multirun)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra's errors reach us instead of being printed
    typed, along = sys.argv, _swept_along(arguments.overrides) if arguments.multirun else {}

    def as_typed(config: DictConfig) -> None:
        sys.argv = typed  # which goes into the run's provenance
        job(config)

    sys.argv = [along.get(argument, argument) for argument in typed]
    try:
        hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=config_name)(as_typed)()
    except (HydraException, OmegaConfBaseException, ValueError, OSError) as error:
        raise UserError(one_line(error)) from None
    finally:
        sys.argv = typed


def _swept_along(arguments: Sequence[str]) -> dict[str, str]:
    """Options of groups that are swept over, as sweeps of one value.

    Before a sweep Hydra composes a configuration of what does not vary, in which ``model`` is the default's, and so
    refuses options that only the models swept over have.
    """
    overrides = {argument: _parse(argument) for argument in arguments}
    swept = {override.key_or_group for override in overrides.values() if override.is_sweep_override()}
    return {
        argument: "{}=choice({})".format(*argument.split("=", 1))
        for argument, override in overrides.items()
        if not override.is_sweep_override()
        and override.type is OverrideType.CHANGE
        and "." in override.key_or_group
        and ("experiment" in swept or override.key_or_group.split(".")[0] in swept)
        and not override.key_or_group.startswith("hydra.")
        and override.get_value_string()
    }


def read_command_line(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line as Hydra reads it; a UserError where it would print how it is to be used."""
    parser = get_args_parser()

    parser.error = CommandParser().error
    return parser.parse_args(arguments)


def check_overrides(arguments: Sequence[str], config_name: str, sweep: bool, configs: Path = CONFIGS) -> None:
    """Find a misspelt group, choice or option among overrides ``key=value``.

    Hydra would find most of them too, but answers with the hint to add ``+``, which only moves the
    mistake. What lies deeper in Hydra's own options is Hydra's affair.

    Raises: UserError naming the nearest option or choice there is.
    """
    overrides = [_parse(argument) for argument in arguments]
    for override in overrides:
        if override.is_sweep_override() and not sweep:
            raise UserError(f"{override.input_line}: several values make a sweep, which needs -m before it")
    overrides = [override for override in overrides if not override.key_or_group.startswith("hydra/")]
    groups = {path.name for path in configs.iterdir() if path.is_dir() and path.name != "hydra"}
    choices = {o.key_or_group: _choices(o, configs) for o in overrides if o.key_or_group in groups}
    with initialize_config_dir(str(configs), version_base="1.3"):
        for combination in itertools.product(*choices.values()):
            chosen = [f"{group}={choice}" for group, choice in zip(choices, combination, strict=True)]
            try:
                config = compose(config_name, chosen, return_hydra_config=True)
            except (HydraException, OmegaConfBaseException) as error:
                raise UserError(one_line(error)) from None
            for override in overrides:
                parts = override.key_or_group.split(".")
                if override.key_or_group not in groups:
                    _require_key(parts[:2] if parts[0] == "hydra" else parts, config, groups)


def _parse(argument: str) -> Override:
    if "=" not in argument and not argument.startswith("~"):
        raise UserError(f"'{argument}': write options as key=value, such as model=lstm or optimizer.lr=0.01")
    try:
        return OverridesParser.create().parse_overrides([argument])[0]
    except HydraException as error:
        raise UserError(
            f"'{argument}': cannot be read ({str(error).splitlines()[0]}); quote special signs, "
            "in the shell's quotes too: 'key=\"value\"'"
        ) from None


def _choices(override: Override, configs: Path) -> list[str]:
    """The choices of a group that an override names, each of which must exist."""
    group, value = override.key_or_group, override.value()
    available = sorted(path.stem for path in (configs / group).glob("*.yaml"))
    if group == "experiment":
        available.append("null")  # the one group that may be left out
    if override.get_key_element() != group:
        raise UserError(f"{override.input_line}: every run has one {group}; choose it with {group}=NAME")
    if isinstance(value, Glob):
        values = value.filter(available)
    elif override.is_sweep_override() and override.is_discrete_sweep():
        values = [str(Override._convert_value(choice)) for choice in override.sweep_iterator()]
    else:
        values = [value if isinstance(value, str) else override.get_value_string()]
    for value in values or [override.get_value_string()]:
        if value not in available:
            raise UserError(f"{group}={value}: no such {group}{nearest(value, available)}")
    return values


def _require_key(parts: Sequence[str], config: DictConfig, groups: set[str]) -> None:
    """Raise a UserError unless the configuration has the option already."""
    node: Any = config
    for depth, part in enumerate(parts):
        if not isinstance(node, DictConfig) or part not in node:
            names = [str(name) for name in node] if isinstance(node, DictConfig) else []
            names = [".".join([*parts[:depth], name]) for name in names]
            hint = nearest(".".join(parts[: depth + 1]), {*names, *(groups if depth == 0 else ())})
            raise UserError(f"{'.'.join(parts)}: no such option{hint}")
        node = node._get_node(part)
