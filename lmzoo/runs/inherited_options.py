"""Runs named by options, and the options inherited from them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import lmzoo.models  # noqa: F401 - its import registers them
from lmzoo.core.configs import flatten, saved
from lmzoo.core.options import renamed_value
from lmzoo.corpus.user_files import form_of_run
from lmzoo.protocol.model import models
from lmzoo.runs.configuration import registries
from lmzoo.runs.kinds import kind_of


def renamed(settings: Mapping[str, Any], name: Callable[[str], str]) -> dict[str, Any]:
    """A copy of settings in which the value v of each option that names a source run or file is ``name(v)``."""
    registry, groups = registries(kind_of(settings))[0], dict(settings)
    learner = settings[registry.kind]
    if isinstance(learner, dict) and learner.get("name") in registry.entries:
        groups[registry.kind] = registry.renamed(learner, name)
    for group, option in (("trainer", "from"), ("corpus", "vocabulary")):
        if option in groups.get(group, {}):
            groups[group] = groups[group] | {option: renamed_value(groups[group][option], name)}
    return groups


def inherited_options(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of other runs that replace defaults, by group.

    ``model`` has those of the run ``trainer.from``, except sources of that run. ``corpus`` has the text processing of
    the run ``corpus.vocabulary``. A run that has begun uses its own saved options, since the others may be gone.
    """
    now, begun = flatten(settings), saved(settings["run_dir"]) if settings["run_dir"] else {}

    def holder(option: str) -> str | None:
        """The folder with the configuration to inherit from, for an option that names a run."""
        source = now.get(option)
        if not isinstance(source, str):
            return None
        return settings["run_dir"] if flatten(begun).get(option) == source else source

    groups: dict[str, dict[str, Any]] = {}
    if folder := holder("trainer.from"):
        model = saved(folder).get("model")
        if isinstance(model, dict) and model.get("name") == settings["model"]["name"]:
            sources = models.sources(model) if model["name"] in models.entries else {}
            groups["model"] = {name: value for name, value in model.items() if f"model.{name}" not in sources}
    if folder := holder("corpus.vocabulary"):
        groups["corpus"] = form_of_run(folder)
    return {
        group: {name: value for name, value in options.items()
                if name in settings[group] and "${" not in json.dumps(value, default=str)}  # no ${oc.env:HOME}
        for group, options in groups.items()
    }  # fmt: skip
