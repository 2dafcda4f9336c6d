"""The configuration that a run has saved."""

from typing import Any, get_args

from lmzoo.core.configs import completed, defaults
from lmzoo.core.errors import UserError, shortened
from lmzoo.corpus import Context
from lmzoo.runs.kinds import kind_of


def with_defaults(config: Any) -> dict[str, Any]:
    """A saved configuration, with the options that its groups have got since; a UserError for none of a run."""
    kind = kind_of(config if isinstance(config, dict) else {})
    groups, config = (kind.text, kind.learner), {"plugins": [], **config}
    named = all(isinstance(config.get(group), dict) and isinstance(config[group].get("name"), str) for group in groups)
    listed = isinstance(config["plugins"], list) and all(isinstance(name, str) for name in config["plugins"])
    if not (named and listed and isinstance(config.get("trainer", {}), dict)):
        raise UserError("no configuration of a run")
    whole = {**config, **{group: completed(config[group], group) for group in groups}}
    if "trainer" in config:
        whole["trainer"] = {**defaults("trainer", "default"), **config["trainer"]}
    if kind.text == "corpus" and (context := whole["corpus"].get("context")) not in get_args(Context):
        raise UserError(f"corpus.context={shortened(context)}: must be one of {', '.join(get_args(Context))}")
    return whole
