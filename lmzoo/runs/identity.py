"""What makes two configurations those of one run: the options that its results depend on."""

import functools
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from lmzoo.core.configs import choices, defaults
from lmzoo.core.errors import UserError, shortened
from lmzoo.core.options import idle as options_idle
from lmzoo.core.options import written
from lmzoo.core.registry import Registry
from lmzoo.corpus.entries import corpora
from lmzoo.protocol.model import models
from lmzoo.protocol.state_dict import without_numbers
from lmzoo.runs.kinds import kind_of
from lmzoo.runs.settings import flatten
from lmzoo.runs.trainer_options import TrainerOptions

FREE_TO_CHANGE = {
    "run_dir",
    "device",
    "trainer.checkpoint_seconds",
    "checkpoint_seconds",
    "corpus.urls",
    "corpus.label",
}
"""Options that a resumed run may change, since results do not depend on them."""


def of_steps(option: str) -> bool:
    """Whether an option is one of gradient descent alone."""
    return option.startswith(("optimizer.", "schedule.", "trainer.")) and option != "trainer.first_tokens"


class _Learns(NamedTuple):
    """How a model learns: by steps of gradient descent, as one without parameters does not; and with random numbers."""

    by_steps: bool
    at_random: bool


@functools.cache
def _learns(options: str) -> _Learns:
    import lmzoo.models  # noqa: F401 - it registers all of them, which takes a while and is seldom needed

    try:
        with without_numbers():
            model = models.build(json.loads(options), vocabulary_size=1 << 16)
    except (UserError, RuntimeError):  # told where the run is made; a model of one's own that needs its numbers
        return _Learns(by_steps=True, at_random=True)
    by_steps = any(parameter.requires_grad for parameter in model.parameters())
    return _Learns(by_steps, at_random=by_steps or model.random)


def without_effect(config: Mapping[str, Any]) -> dict[str, str]:
    """The options that have no effect on a run beside its others, and the reason of each; see `Idle`.

    They make no other run.
    """
    options = flatten(config)
    idle = {name: why for registry in registries(config) for name, why in registry.idle(options).items()}
    if "trainer" in config:
        idle |= options_idle(TrainerOptions, options, "trainer.")
    learns = _learns(json.dumps(config["model"], default=str)) if "model" in config else None
    if learns and not learns.by_steps:
        reason = written("model", options["model.name"])
        refused = {"trainer.from"} - {key for key, value in options.items() if value is None}  # when it begins
        steps = {key for key in options if of_steps(key)} - FREE_TO_CHANGE - refused
        idle |= dict.fromkeys(steps, f"{reason}, which takes no steps of gradient descent")
        if not learns.at_random:
            idle["seed"] = f"{reason}, which draws no random numbers"
    return idle


def registries(config: Mapping[str, Any]) -> tuple[Registry, ...]:
    """The registries of what learns and of what it learns from. They are imported when they are needed."""
    if "labeller" in config:
        import lmzoo.labels
        from lmzoo.labels.model import labellers
        from lmzoo.labels.tasks import tasks

        return labellers, tasks
    if "method" in config:
        from lmzoo.words.vectors.method import methods

        return methods, corpora
    import lmzoo.models  # noqa: F401

    return models, corpora


def result_options(config: Mapping[str, Any], steps: bool) -> dict[str, Any]:
    """The options that results depend on, flattened.

    Args:
        steps: whether those of gradient descent are among them.
    """
    options = flatten(config)
    return {key: options[key] for key in options if key not in FREE_TO_CHANGE and (steps or not of_steps(key))}


def effective(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options that results depend on beside the others that the configuration has, flattened."""
    idle = without_effect(config)
    return {key: value for key, value in result_options(config, steps=True).items() if key not in idle}


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The options that results depend on in which two configurations differ, as ``key: old -> new``.

    ``trainer.precision=auto`` is whatever a run began with.
    """
    before, after = result_options(old, steps=True), result_options(new, steps=True)
    if "trainer.precision" in before and after.get("trainer.precision") == "auto":
        before["trainer.precision"] = "auto"
    differing = [key for key in {**before, **after} if before.get(key, "absent") != after.get(key, "absent")]
    if differing:
        matter = effective(old) | effective(new)
        differing = [key for key in differing if key in matter]
    return [
        f"{key}: {shortened(before.get(key, 'absent'))} -> {shortened(after.get(key, 'absent'))}" for key in differing
    ]


def unlike_defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options that results depend on, as far as no file of configuration says them: those that tell a run from
    others of its text and its model."""
    kind = kind_of(config)
    usual = defaults("", kind.command)
    chosen = {group: entry for choice in usual.pop("defaults") if isinstance(choice, dict)
              for group, entry in choice.items()}  # fmt: skip
    for group, options in config.items():
        if isinstance(options, Mapping):
            name = str(options.get("name", "default"))
            usual[group] = (defaults(group, name) if name in choices(group) else {}) | {"name": name}
            if group not in (kind.text, kind.learner):
                usual[group]["name"] = chosen.get(group)
    usual = flatten(usual)
    return {key: value for key, value in effective(config).items() if key not in usual or usual[key] != value}


def given_without_effect(config: Mapping[str, Any], given: Collection[str]) -> Iterator[str]:
    """A line for each reason why options that were given have no effect.

    Args:
        given: the options and groups that were given. Others may be of a preset.
    """
    options, idle, told = flatten(config), without_effect(config), dict[str, list[str]]()
    for option in given:
        inside = [key for key in options if key == option or key.startswith(f"{option}.")]
        if inside and all(key in idle for key in inside):
            told.setdefault(idle[inside[0]], []).append(option)
    for reason, names in told.items():
        yield f"no effect with {reason}: {', '.join(names)}"
