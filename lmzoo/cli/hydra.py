"""Command lines and sweeps of the commands that make runs, by Hydra."""

import argparse
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import OverrideType
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lmzoo.cli.help import help_text
from lmzoo.cli.overrides import (
    check_choices,
    check_keys,
    composed,
    fill_groups,
    hydra_message,
    load_plugins_of,
    model_of_source,
    parse,
    resolved,
)
from lmzoo.cli.start import exit_on_interrupt
from lmzoo.core.configs import CONFIGS
from lmzoo.core.errors import UserError, printable
from lmzoo.core.files import sha256
from lmzoo.runs.listing import LATEST, find

if TYPE_CHECKING:
    from lmzoo.runs.configuration import Configuration

INHERITED = "inherited"
"""The group of options inherited from other runs, which override defaults and are overridden by the command line."""

Compose = Callable[[Sequence[str]], DictConfig]
"""A function that composes a configuration from overrides, Hydra's own included."""

Job = Callable[[Callable[[], dict[str, Any]], str, int | None, list[str]], Any]
"""The function called for a run. Arguments: a function that trains and returns the results; the folder of the run; and
in a sweep, the number of the job and the overrides chosen by the sweep."""


def run_hydra(job: Job, config_name: str, line: Sequence[str] | None = None) -> None:
    """Call ``job`` for the run of a command line, or in a sweep for each one.

    Hydra receives the result of a job. The first exception of a job ends a sweep.

    Raises: UserError if the command line is invalid, and the exceptions of a job.
    """
    before, typed = sys.argv, [*(line or sys.argv)]
    line = [argument for argument in typed if argument != "experiment=null"]  # the default, which Hydra cannot parse
    arguments = read_command_line(line[1:], config_name)
    flags = [argument for argument in line[1:] if argument not in arguments.overrides]
    folders = [CONFIGS, *([Path(arguments.config_dir).absolute()] if arguments.config_dir else [])]
    load_plugins_of(arguments.overrides)
    fill_groups(folders)
    names = _Names()
    if arguments.shell_completion:
        raise UserError("--shell-completion: is not supported", "leave it out")
    ours = not (arguments.config_path or arguments.config_name)
    if ours:
        arguments.overrides[:0] = model_of_source(arguments.overrides, folders, names.__getitem__)
        check_choices(arguments.overrides, config_name, bool(arguments.multirun or arguments.cfg), folders)
        if arguments.multirun or any(given[0] in "+~" for given in arguments.overrides):
            check_keys(arguments.overrides, config_name, folders)

    def compose(overrides: Sequence[str]) -> DictConfig:
        return composed(arguments.config_name or config_name, overrides, folders)

    def do(config: DictConfig) -> Any:
        with exit_on_interrupt():  # not at the top, since --help and misspelt options need no PyTorch
            from lmzoo.training.session import train
        settings, chosen = HydraConfig.get(), []
        task: Any = OmegaConf.to_container(settings.overrides.task)  # as given, since some may be interpolations
        number = settings.job.num if settings.mode == RunMode.MULTIRUN else None
        if number is not None:
            if own := settings.launcher.get("cpus_per_task"):  # joblib sets OMP_NUM_THREADS in its processes
                import torch

                torch.set_num_threads(own)
            fixed = {o.key_or_group for o in map(parse, arguments.overrides) if not o.is_sweep_override()}
            chosen = [given for given in task if parse(given).key_or_group not in fixed]
        names_given = [parse(override).key_or_group for override in task]
        parsed = _configuration(config, names.__getitem__, lambda more: compose([*task, *more]))
        return job(partial(train, parsed, names_given), str(parsed["run_dir"]), number, chosen)

    more = ("multirun", "cfg", "info", "hydra_help", "version", "experimental_rerun")  # than composition
    by_hydra = any(getattr(arguments, flag, None) for flag in more) or any("hydra" in o for o in arguments.overrides)
    if arguments.help or (ours and not by_hydra):
        try:
            config = compose(arguments.overrides)
        except UserError:  # most mistakes get better messages than Hydra's
            check_keys(arguments.overrides, config_name, folders)
            raise
        if arguments.help:
            print(help_text(config_name, config, folders))
            return
        sys.argv = typed  # recorded in the run's provenance
        HydraConfig.instance().set_config(config)
        try:
            do(config)
        finally:
            sys.argv = before
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises its errors, not prints them
    along = _forced(arguments.overrides) if arguments.multirun else {}
    stop: list[Exception] = []
    if arguments.multirun and any(LATEST.name in argument for argument in arguments.overrides):
        names[LATEST.name]  # now, since launchers elsewhere would find later runs
    process = os.getpid()

    def as_typed(config: DictConfig) -> Any:
        if stop:
            return None
        sys.argv = typed
        try:
            return do(config)
        except Exception as error:
            if os.getpid() != process:  # in a process of a launcher, which passes it on
                raise
            stop.append(error)  # Hydra would print it and start the next job
            return None

    sys.argv = [line[0], *(along.get(override, override) for override in arguments.overrides), *flags]
    optuna = logging.getLogger("hydra_plugins.hydra_optuna_sweeper._impl")  # reports a failed run again
    optuna.addFilter(lambda record: "float-castable. Got 'None'" not in record.getMessage())
    try:
        hydra.main(version_base="1.3", config_path=str(CONFIGS), config_name=config_name)(as_typed)()
    except BrokenPipeError:  # by --help | head
        raise
    except (HydraException, OmegaConfBaseException, ValueError, OSError) as error:
        if not stop:  # else caused by the job that stopped
            if ours:
                check_keys(arguments.overrides, config_name, folders)
            if str(error) == "No trials are completed yet.":  # Optuna's
                raise UserError("the search has no best run, as all its runs failed") from None
            lacking = re.search("Could not (find|load) 'hydra/(launcher|sweeper)/", str(error))
            advice = "other launchers and sweepers come with pip install 'lmzoo-torch[sweep]'" if lacking else None
            raise UserError(hydra_message(error), advice) from None
    finally:
        sys.argv = before
    if stop:
        raise stop[0]


class _Names(dict[str, str]):
    """The paths of runs by abbreviation, cached, so that they stay fixed while a sweep adds runs."""

    def __missing__(self, name: str) -> str:
        path = find(name)
        self[name] = name if path == Path(name) else str(path)
        if self[name] != name:
            print(printable(f"{name} is {path}"), file=sys.stderr)
        return self[name]


def _configuration(config: DictConfig, names: Callable[[str], str], compose: Compose) -> "Configuration":
    """The configuration of a job, with the options inherited from other runs.

    Args:
        names: maps an abbreviation to the path of a run.
    """
    from lmzoo.runs.configuration import Configuration, inherited_options

    settings = resolved(config)
    if INHERITED in HydraConfig.get().runtime.choices and (groups := inherited_options(settings, names)):
        source = sha256(json.dumps(groups).encode())
        ConfigStore.instance().store(source, groups, INHERITED, "_global_")
        settings = resolved(compose([f"{INHERITED}={source}"]))
    return Configuration.from_command(settings, names)


def _forced(arguments: Sequence[str]) -> dict[str, str]:
    """The overrides to rewrite for Hydra, of groups that a sweep varies: ``model.states=4`` becomes
    ``++model.states=4`` in ``-m model=hmm,vlhmm model.states=4``.

    Before a sweep, Hydra composes one configuration from overrides with one value, and so with the default model, and
    rejects options that this model lacks."""
    overrides = {argument: parse(argument) for argument in arguments}
    swept = {override.key_or_group for override in overrides.values() if override.is_sweep_override()}
    return {
        argument: f"++{argument}"
        for argument, override in overrides.items()
        if not override.is_sweep_override()
        and override.type is OverrideType.CHANGE
        and "." in override.key_or_group
        and ("experiment" in swept or override.key_or_group.split(".")[0] in swept)
        and not override.key_or_group.startswith("hydra.")
    }


def read_command_line(arguments: Sequence[str], config_name: str = "train") -> argparse.Namespace:
    """Parse the command line like Hydra; raise a UserError where Hydra would print its usage."""
    parser = get_args_parser()

    def refuse(message: str) -> NoReturn:
        advice = "see --help"
        for name, value in re.findall(r"(?<!\S)--?([a-z][\w.-]+)[= ]([^\s=]+)(?!\S)", " ".join(arguments)):
            if f"--{name}" not in parser._option_string_actions:  # --model lstm
                meant = f"{name.replace('-', '_')}={value}"
                try:
                    check_choices([meant], config_name, True, [CONFIGS])
                    check_keys([meant], config_name, [CONFIGS])
                    advice = f"write {meant}"
                except UserError as error:
                    advice = error.advice or error.problem
        raise UserError(message, advice)

    parser.error = refuse
    return parser.parse_intermixed_args(arguments)
