"""Validation of overrides ``key=value`` before Hydra reads them."""

import functools
import itertools
import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lmzoo.cli.start import exit_on_interrupt
from lmzoo.core.catalogue import entries, groups
from lmzoo.core.configs import choices, defaults, flatten, saved
from lmzoo.core.errors import UserError, nearest, one_line, shortened
from lmzoo.core.options import option_refusal
from lmzoo.core.plugins import VARIABLE, load_plugins

FOLDERS = {"hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.output_subdir", "hydra.job.chdir"}
"""Options for folders that Hydra would create before it validates the command line, or go to."""


def check_choices(arguments: Sequence[str], config_name: str, sweep: bool, folders: Sequence[Path]) -> None:
    """Reject misspelt choices of groups, and overrides that Hydra supports but lmzoo does not.

    Args:
        folders: the package's configuration folder, followed by further search folders.

    Raises: UserError with the most similar choice.
    """
    overrides, groups = [parse(argument) for argument in arguments], _groups(config_name)
    for override in overrides:
        if override.is_sweep_override() and not sweep:
            problem = f"{override.input_line}: several values make a sweep, which lmzoo {config_name} -m does"
            key, _, values = str(override.input_line).partition("=")
            written = f"a list is '{key}=[{values}]', a name with a comma \"{key}='{values}'\""
            raise UserError(problem, written if key.startswith("corpus.") else None)
        if override.is_interval_sweep() and "hydra/sweeper" not in {other.key_or_group for other in overrides}:
            raise UserError(f"{override.input_line}: an interval needs a search", "add hydra/sweeper=search")
        if override.key_or_group in ("hydra/launcher", "hydra/sweeper") and not sweep:
            raise UserError(f"{override.input_line}: has an effect only in a sweep", "add -m, or leave it out")
        if override.key_or_group in FOLDERS:
            raise UserError(f"{override.key_or_group}: Hydra keeps no folders here", "choose run_dir=FOLDER")
        if override.key_or_group in groups:
            _choices(override, folders)
        elif choices(override.key_or_group) and not override.key_or_group.startswith("hydra/"):
            raise UserError(f"{override.key_or_group}: no such option of lmzoo {config_name}", "leave it out")


def check_keys(arguments: Sequence[str], config_name: str, folders: Sequence[Path]) -> None:
    """Reject misspelt options among overrides that pass `check_choices`, for each choice of a sweep.

    Hydra would advise to add ``+``, which only moves the mistake, and in a sweep would fail only when the run begins.
    Of Hydra's own options only the first two levels are validated.

    Raises: UserError with the most similar option.
    """
    overrides, groups = [parse(argument) for argument in arguments], _groups(config_name)
    overrides = [override for override in overrides if not override.key_or_group.startswith("hydra/")]
    chosen_of = {o.key_or_group: _choices(o, folders) for o in overrides if o.key_or_group in groups}
    several = [group for group in chosen_of if len(chosen_of[group]) > 1]
    configs: dict[str, Any] = {}
    for combination in itertools.product(*chosen_of.values()):
        chosen = dict(zip(chosen_of, combination, strict=True))
        config = composed(config_name, [f"{group}={choice}" for group, choice in chosen.items()], folders)
        configs[" ".join(f"{group}={chosen[group]}" for group in several)] = OmegaConf.to_container(config)
    for override in overrides:
        if (key := override.key_or_group) in groups:
            continue
        refused = {chosen: wrong for chosen, config in configs.items() if (wrong := _refusal(key, config, groups))}
        for chosen, refusal in refused.items():
            advice = f"leave it out, or each {key.split('.')[0]} that does not have it"
            raise refusal if len(refused) == len(configs) else UserError(f"{key}: no such option of {chosen}", advice)
        if override.type is OverrideType.DEL and key.split(".")[0] in groups:
            raise UserError(f"{override.input_line}: an option cannot be deleted", "set it to another value")


def _groups(config_name: str) -> set[str]:
    """The groups with choices in a command's configuration."""
    return {group for entry in defaults("", config_name)["defaults"] if isinstance(entry, dict) for group in entry}


def load_plugins_of(arguments: Sequence[str]) -> None:
    """Import the plug-ins of a command line or the environment, so that Hydra finds their entries."""
    given = [parse(argument).value() for argument in arguments if argument.startswith("plugins=")]
    names = given[-1] if given else []
    if isinstance(names, str):
        raise UserError(f"plugins={shortened(names)}: must be a list", f"write plugins=[{names}]")
    names = names if isinstance(names, list) else []
    if names or os.environ.get(VARIABLE):
        with exit_on_interrupt():
            load_plugins(map(str, names))


_filled: dict[tuple[str, str], Any] = {}
"""The entries stored in Hydra, by group and name."""


def fill_groups(folders: Sequence[Path]) -> None:
    """Store registered entries in Hydra, except those with a file in ``folders``, for which it would warn."""
    global _filled
    wanted = {
        (group, name): entry
        for group in groups()
        for name, entry in entries(group).items()
        if not any((folder / group / f"{name}.yaml").exists() for folder in folders)
    }
    if wanted == _filled:
        return
    store = ConfigStore.instance()
    vars(store)["__deepcopy__"] = lambda _: store  # Hydra copies what it loads from it
    for group in groups():
        store.repo.pop(group, None)
    for (group, name), entry in wanted.items():
        node = {**({"name": name} if entry.named else {}), **entry.defaults}
        store.store(name, node, group, group, provider="lmzoo")
    _filled = wanted


def composed(config_name: str, overrides: Sequence[str], folders: Sequence[Path]) -> DictConfig:
    """Compose a configuration from overrides, Hydra's own included; see `check_choices`."""
    searched = f"hydra.searchpath={json.dumps([str(folder) for folder in folders[1:]])}"
    fill_groups(folders)
    try:
        inside = GlobalHydra.instance().is_initialized()  # as in the job of a sweep
        with nullcontext() if inside else initialize_config_dir(str(folders[0]), version_base="1.3"):
            return compose(config_name, [searched, *overrides], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(hydra_message(error)) from None


def resolved(config: DictConfig) -> Any:
    """A configuration without Hydra's own options; raise a UserError for an invalid interpolation."""
    own = [str(name) for name in config if name != "hydra"]
    try:
        return OmegaConf.to_container(OmegaConf.masked_copy(config, own), resolve=True)
    except OmegaConfBaseException as error:
        where = f"{error.full_key}: " if error.full_key else ""
        raise UserError(f"{where}{str(error).splitlines()[0]}") from None


def model_of_source(arguments: Sequence[str], folders: Sequence[Path], find: Callable[[str], str]) -> list[str]:
    """The override for the model of the runs ``trainer.from``, if not set; that of the resumed run if they are gone.

    Args:
        find: maps an abbreviation to the path of a run.
    """
    overrides = {override.key_or_group: override for override in map(parse, arguments)}
    source = overrides.get("trainer.from")
    if source is None or source.value() is None or {"model", "experiment"} & overrides.keys():
        return []
    swept = source.is_sweep_override() and source.is_discrete_sweep()
    values = (
        [parse(f"trainer.from={each}").value() for each in source.sweep_string_iterator()]
        if swept
        else [source.value()]
    )
    names = [name for value in values for name in (value if isinstance(value, list) else [value])]
    begun = saved(str(overrides["run_dir"].value())) if "run_dir" in overrides else {}
    models = {str(flatten(saved(find(str(name))) or begun).get("model.name")) for name in names}
    return [f"model={name}" for name in models.intersection(choices("model", folders))] if len(models) == 1 else []


@functools.cache
def parse(argument: str) -> Override:
    """Parse an override with Hydra; raise a UserError if it is invalid."""
    if "=" not in argument and not argument.startswith("~"):
        raise UserError(f"'{argument}': write options as key=value, such as model=lstm or optimizer.lr=0.01")
    try:
        return OverridesParser.create().parse_overrides([argument])[0]
    except (HydraException, ValueError):  # ValueError: an integer with too many digits
        key, _, value = argument.partition("=")
        advice = "quote special characters, also for the shell: 'key=\"value\"'"
        if re.fullmatch(r"\w+(\.\w+)*", key) and not re.search(r"['\"\\]|^[\[{]|^$", value):
            advice = f"quote it, in the shell's quotes too: '{key}=\"{value}\"'"
        if value[:1] == "~":
            advice = "write $HOME for ~, which the shell does not expand here"
        raise UserError(f"'{shortened(argument)}': cannot be read", advice) from None


def _choices(override: Override, folders: Sequence[Path]) -> list[str]:
    """The choices of a group in an override; raise a UserError if one does not exist."""
    group, value = override.key_or_group, override.value()
    available = choices(group, folders)
    if override.get_key_element() != group:
        raise UserError(f"{override.input_line}: every run has one {group}", f"choose it with {group}=NAME")
    if isinstance(value, Glob):
        values = value.filter(available)
    elif override.is_sweep_override() and override.is_discrete_sweep():
        values = list(override.sweep_string_iterator())
    else:
        values = [value if isinstance(value, str) else override.get_value_string()]
    if not {*values} <= {*available}:
        load_plugins()  # those of installed packages
        available = choices(group, folders)
    for value in values or [override.get_value_string()]:
        if value not in available:
            raise UserError(f"{group}={value}: no such {group}", nearest(value, available))
    return values


def _refusal(key: str, config: Any, groups: set[str]) -> UserError | None:
    """The error for a key that is not in a configuration; None if it is."""
    key = ".".join(key.split(".")[:2]) if key.startswith("hydra.") else key
    parts = [name.split(".") for name in flatten(config)]
    names = {".".join(name[:depth]) for name in parts for depth in range(1, len(name) + 1)}
    if key in names:
        return None
    group, _, option = key.rpartition(".")
    meant = option.replace("learning_rate", "lr")  # the name in other programs
    inside = [f"'{name[0]}.{meant}'" for name in parts if name[0] in groups and name[1:] == [meant]]
    for own in [group] if group in groups else () if inside else sorted(groups, reverse=True):  # model before corpus
        holders = [name for name in choices(own) if option in defaults(own, name)]
        if refusal := option_refusal(own, option, holders, str((config.get(own) or {}).get("name"))):
            return refusal
    if inside:
        return UserError(f"{key}: no such option", f"did you mean {' or '.join(inside)}?")
    names |= {name for name in groups if choices(name)}  # also where none is chosen
    meant = f"{group}.{meant}".lstrip(".")
    alike = [name for name in names if name.rpartition(".")[0] == group] or get_close_matches(meant, names, 1, 0.5)
    return UserError(f"{key}: no such option", nearest(meant, alike or [name for name in names if "." not in name]))


def hydra_message(error: Exception) -> str:
    """The message of a Hydra exception, without search path and the advice to use ``+``."""
    lines = re.sub(r"\.?\s*Config search path:.*", "", str(error), flags=re.DOTALL).splitlines()
    return " ".join(" ".join(line for line in lines if not line.startswith("To append to")).split()) or one_line(error)
