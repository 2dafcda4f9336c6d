"""Hydra reads the train command's options and runs its sweeps."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.override_parser.types import OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

import lmzoo.runs.settings  # noqa: F401 - its import registers run_name, which a run_dir calls
from lmzoo.cli.overrides import check_overrides, hydra_message, parse
from lmzoo.core.configs import CONFIGS
from lmzoo.core.errors import UserError


def run_hydra(job: Callable[[DictConfig], None], config_name: str) -> None:
    """Call ``job`` with the configuration that the command line asks for; in a sweep, with one after the other.

    A job must catch its own exceptions, since Hydra would print them.

    Raises: UserError for a mistake on the command line.
    """
    typed = sys.argv
    told = [argument for argument in typed if argument != "experiment=null"]  # the default, which Hydra cannot read
    arguments = read_command_line(told[1:])
    if not (arguments.config_path or arguments.config_name or arguments.config_dir):
        check_overrides(arguments.overrides, config_name, sweep=arguments.multirun)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra's errors reach us instead of being printed
    along = _swept_along(arguments.overrides) if arguments.multirun else {}

    def as_typed(config: DictConfig) -> None:
        sys.argv = typed  # which goes into the run's provenance
        job(config)

    sys.argv = [along.get(argument, argument) for argument in told]
    try:
        hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=config_name)(as_typed)()
    except (HydraException, OmegaConfBaseException, ValueError, OSError) as error:
        raise UserError(hydra_message(error)) from None
    finally:
        sys.argv = typed


def _swept_along(arguments: Sequence[str]) -> dict[str, str]:
    """Options of groups that the sweep varies, as sweeps of one value.

    Before a sweep Hydra composes a configuration from the options that do not vary. The model in it is the default.
    So Hydra refuses an option that only the models of the sweep have, unless the sweep varies that option, too.
    """
    overrides = {argument: parse(argument) for argument in arguments}
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
    """The command line as Hydra reads it; a UserError where Hydra would print its usage."""
    parser = get_args_parser()
    parser.error = _refuse
    return parser.parse_args(arguments)


def _refuse(message: str) -> NoReturn:
    raise UserError(message, "--help shows what there is")
