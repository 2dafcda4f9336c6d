"""What makes two configurations those of one run: the options that its results depend on."""

import functools
import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from lmzoo.core.configs import completed, defaults
from lmzoo.core.errors import UserError, shortened
from lmzoo.core.options import written
from lmzoo.protocol.model import models
from lmzoo.protocol.state_dict import without_numbers
from lmzoo.runs.kinds import kind_of
from lmzoo.runs.settings import TRAINED_RUNS, flatten

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


def takes_steps(config: Mapping[str, Any]) -> bool:
    """Whether options of gradient descent matter to a run: not where its model has no parameters, such as an n-gram."""
    return "model" not in config or _has_parameters(json.dumps(config["model"], default=str))


@functools.cache
def _has_parameters(options: str) -> bool:
    import lmzoo.models  # noqa: F401 - it registers all of them, which takes a while and is seldom needed

    try:
        with without_numbers():
            model = models.build(json.loads(options), vocabulary_size=1 << 16)
    except (UserError, RuntimeError):  # told where the run is made; a model of one's own that needs its numbers
        return True
    return any(parameter.requires_grad for parameter in model.parameters())


def decisive(config: Mapping[str, Any], steps: bool) -> dict[str, Any]:
    """The options that results depend on, flattened.

    Args:
        steps: whether those of gradient descent are among them; see `takes_steps`.
    """
    return {
        key: value
        for key, value in flatten(config).items()
        if key not in FREE_TO_CHANGE and (steps or not of_steps(key))
    }


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The options that results depend on in which two configurations differ, as ``key: old -> new``.

    ``trainer.precision=auto`` is whatever a run began with.
    """
    before, after = decisive(old, steps=True), decisive(new, steps=True)
    if "trainer.precision" in before and after.get("trainer.precision") == "auto":
        before["trainer.precision"] = "auto"
    differing = [key for key in {**before, **after} if before.get(key, "absent") != after.get(key, "absent")]
    if any(map(of_steps, differing)) and not takes_steps(new):
        refused = {key for key in TRAINED_RUNS if after.get(key) is not None}  # when it begins
        differing = [key for key in differing if not of_steps(key) or key in refused]
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
            usual[group] = completed({"name": options.get("name", "default")}, group)
            if group not in (kind.text, kind.learner):
                usual[group]["name"] = chosen.get(group)
    usual = flatten(usual)
    unlike = {key: value for key, value in decisive(config, steps=True).items()
              if key not in usual or usual[key] != value}  # fmt: skip
    if any(map(of_steps, unlike)) and not takes_steps(config):
        unlike = {key: value for key, value in unlike.items() if not of_steps(key)}
    return unlike


def without_effect(config: Mapping[str, Any], idle: Mapping[str, str], given: Collection[str]) -> Iterator[str]:
    """A line for each reason why options that were given have no effect.

    Args:
        idle: options without effect beside the others, and the reason of each; see `lmzoo.core.options.Idle`.
        given: the options and groups that were given. Others may be of a preset.
    """
    options, told = flatten(config), dict[str, list[str]]()
    if not takes_steps(config):
        reason = f"{written('model', options['model.name'])}, which takes no steps of gradient descent"
        idle = {**idle, **{key: reason for key in options if of_steps(key) and key not in FREE_TO_CHANGE}}
    for option in given:
        inside = [key for key in options if key == option or key.startswith(f"{option}.")]
        if inside and all(key in idle for key in inside):
            told.setdefault(idle[inside[0]], []).append(option)
    for reason, names in told.items():
        yield f"no effect with {reason}: {', '.join(names)}"
