"""The configuration that a run has saved."""

from typing import Any, get_args

from lmzoo.core.configs import completed, defaults
from lmzoo.core.errors import UserError, shortened
from lmzoo.corpus import Context


def with_defaults(config: Any) -> dict[str, Any]:
    """A saved configuration, with the options that model or method, corpus and trainer have got since then.

    Raises: UserError for what is no configuration of a run.
    """
    if not _is_configuration(config):
        raise UserError("no configuration of a run")
    if "labeller" in config:
        return {**config, **{group: completed(config[group], group) for group in ("task", "labeller")}}
    corpus = completed(config["corpus"], "corpus")
    if (context := corpus.get("context")) not in get_args(Context):
        raise UserError(f"corpus.context={shortened(context)}: must be one of {', '.join(get_args(Context))}")
    since = {"trainer": {**defaults("trainer", "default"), **config["trainer"]}} if "trainer" in config else {}
    kind = _kind(config)
    return {"plugins": [], **config, kind: completed(config[kind], kind), "corpus": corpus, **since}


def _kind(config: dict[str, Any]) -> str:
    """The group that says what was trained: a language model, a method that makes word vectors, or a labeller."""
    return next((kind for kind in ("method", "labeller") if kind in config), "model")


def _is_configuration(config: Any) -> bool:
    groups = (
        [config.get(name) for name in (_kind(config), "task" if "labeller" in config else "corpus")]
        if isinstance(config, dict)
        else [None]
    )
    named = all(isinstance(group, dict) and isinstance(group.get("name"), str) for group in groups)
    plugins = config.get("plugins", []) if named else None
    listed = isinstance(plugins, list) and all(isinstance(name, str) for name in plugins)
    return listed and isinstance(config.get("trainer", {}), dict)
