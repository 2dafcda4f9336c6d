"""The configuration of a run, parsed once: from Hydra for a new run, from ``config.yaml`` for an existing one."""

import contextlib
import importlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from lmzoo.core.configs import choices, defaults, flatten, saved
from lmzoo.core.errors import UserError, format_value, shortened
from lmzoo.core.files import sha256
from lmzoo.core.options import call, format_option, renamed_value, unfit
from lmzoo.core.registry import REGISTRIES, Registry
from lmzoo.corpus import Context, corpus_label
from lmzoo.corpus.user_files import form_of_run
from lmzoo.protocol.model import takes_steps
from lmzoo.runs.command_options import RunOptions, commands
from lmzoo.runs.kinds import LABELS, LANGUAGE_MODEL, WORD_VECTORS, Kind, kind_of
from lmzoo.runs.listing import OUTPUTS
from lmzoo.runs.trainer_options import trainers

LONGEST = 100
"""The maximum length of the corpus in the path of a run, in characters."""

FREE_TO_CHANGE = {
    "run_dir",
    "device",
    "trainer.checkpoint_seconds",
    "checkpoint_seconds",
    "corpus.urls",
    "corpus.label",
}
"""Options that a resumed run may change, since results do not depend on them."""

SOURCES = ("trainer", "from"), ("corpus", "vocabulary")
"""The options that name a source run or file in groups other than the learner's."""


class Configuration(Mapping[str, Any]):
    """The settings of a run: groups of options by name, such as ``model``, and options of the whole run.

    Args:
        settings: a resolved Hydra configuration, or the contents of ``config.yaml``.

    Attributes:
        kind: the kind of run.
        options: all options by their full names, as in ``{"model.hidden": 200, …}``.

    Raises: UserError if the settings are not those of a run.
    """

    def __init__(self, settings: Any):
        self.kind = kind_of(settings if isinstance(settings, Mapping) else {})
        self._settings = {"plugins": [], **settings}
        for group in (self.kind.text, self.kind.learner):
            if unfit(self._settings.get(group), dict) or unfit(self[group].get("name"), str):
                raise UserError(f"{group} of a run: must be a group with a name")
        for option, needed in (("plugins", list[str]), ("trainer", dict)):
            if wrong := unfit(value := self.get(option, needed()), needed):
                raise UserError(f"{option}={shortened(value)}: must be {wrong}")
        if self.kind.text == "corpus" and (context := self["corpus"].get("context")) not in get_args(Context):
            raise UserError(f"corpus.context={shortened(context)}: must be one of {', '.join(get_args(Context))}")
        self.options = flatten(self._settings)

    @classmethod
    def from_command(cls, settings: Any, find: Callable[[str], str]) -> "Configuration":
        """The configuration of a run that a command starts or resumes; its ``run_dir`` may be its `default_folder`.

        Each value v of an option that names a source run or file is replaced by ``find(v)``.
        """
        groups = dict(config := cls(settings))
        registry = registries(config.kind)[0]
        if groups[registry.kind]["name"] in registry.entries:
            groups[registry.kind] = registry.renamed(groups[registry.kind], find)
        for group, option in SOURCES:
            if option in groups.get(group, {}):
                groups[group] = groups[group] | {option: renamed_value(groups[group][option], find)}
        config = cls(groups)
        return config if groups["run_dir"] is not None else cls(groups | {"run_dir": str(config.default_folder())})

    @property
    def run_options(self) -> RunOptions:
        """The options of the command that made the run; raise a UserError if one is missing or invalid."""
        return call(commands.entries[self.kind.command], self._settings, "")

    def default_folder(self) -> Path:
        """The default folder of the run: ``outputs/CORPUS/MODEL`` or ``outputs/CORPUS/MODEL-HASH``.

        The hash is that of the options that differ from the defaults, or of all options if another configuration has
        that folder.
        """
        learner = self[self.kind.learner]["name"]
        corpus = re.sub(r"[^\w.+-]+", "-", corpus_label(self[self.kind.text])).lstrip(".")[:LONGEST] or "text"
        unlike = self.unlike_defaults
        folder = OUTPUTS / corpus / (f"{learner}-{_digest(unlike)[:6]}" if unlike else learner)
        with contextlib.suppress(UserError):  # `Run.check` refuses a folder whose configuration is invalid
            if (other := saved(folder)) and Configuration(other).differences(self):
                return folder.with_name(f"{learner}-{_digest(self.result_options)[:12]}")
        return folder

    def __getitem__(self, name: str) -> Any:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    @property
    def takes_steps(self) -> bool:
        """Whether a language model is trained by gradient descent; see `LanguageModel.takes_steps`.

        It is True of a model whose plug-in is not imported yet.
        """
        if self.kind is not LANGUAGE_MODEL:
            return True
        import lmzoo.models  # noqa: F401 - its import registers them

        return takes_steps(self["model"])

    @property
    def result_options(self) -> dict[str, Any]:
        """The options that results depend on, which identify the run."""
        steps = self.takes_steps
        return {key: value for key, value in self.options.items()
                if key not in FREE_TO_CHANGE and (steps or not _of_steps(key))}  # fmt: skip

    @property
    def unlike_defaults(self) -> dict[str, Any]:
        """The result options with other than default values, which distinguish runs of the same text and model."""
        usual = defaults("", self.kind.command)
        chosen = {group: entry for choice in usual.pop("defaults") if isinstance(choice, dict)
                  for group, entry in choice.items()}  # fmt: skip
        for group, options in self.items():
            if isinstance(options, Mapping):
                name = options.get("name", "default")
                usual[group] = defaults(group, name) if name in choices(group) else {}
                usual[group]["name"] = name if group in (self.kind.text, self.kind.learner) else chosen.get(group)
        usual = flatten(usual)
        return {key: value for key, value in self.result_options.items() if key not in usual or usual[key] != value}

    def differences(self, other: "Configuration") -> list[str]:
        """The result options that differ in another configuration, as ``key: ours -> theirs``.

        ``trainer.precision=auto`` of the other one matches any precision.
        """
        ours, theirs = self.result_options, other.result_options
        if theirs.get("trainer.precision") == "auto" and "trainer.precision" in ours:
            theirs = theirs | {"trainer.precision": ours["trainer.precision"]}
        return [
            f"{key}: {shortened(ours.get(key, 'absent'))} -> {shortened(theirs.get(key, 'absent'))}"
            for key in {**ours, **theirs}
            if ours.get(key, "absent") != theirs.get(key, "absent")
        ]

    def without_effect(self) -> dict[str, str]:
        """The options without effect given the others, each with its reason; see `lmzoo.core.options.Idle`."""
        idle = {name: why for registry in (*registries(self.kind), trainers)
                for name, why in registry.idle(self.options).items() if name in self.options}  # fmt: skip
        of_steps = [key for key in self.options if _of_steps(key) and key not in FREE_TO_CHANGE]
        if not self.takes_steps:
            reason = f"{format_option('model', self['model']['name'])}, which takes no steps of gradient descent"
            idle |= dict.fromkeys(of_steps, reason)
        elif self.options.get("trainer.epochs") == 0:
            idle |= dict.fromkeys((key for key in of_steps if key != "trainer.epochs"), "trainer.epochs=0")
        return idle

    def notes_on(self, given: Collection[str]) -> Iterator[str]:
        """A line for each reason why some of the options and groups set by the user have no effect."""
        idle, by_reason = self.without_effect(), dict[str, list[str]]()
        for option in given:
            inside = [key for key in self.options if key == option or key.startswith(f"{option}.")]
            if inside and all(key in idle for key in inside):
                by_reason.setdefault(idle[inside[0]], []).append(option)
        for reason, names in by_reason.items():
            yield f"no effect with {reason}: {', '.join(names)}"


def registries(kind: Kind) -> tuple[Registry, Registry]:
    """The registries of learners and of texts of a kind of run, imported on demand."""
    modules = {LABELS: ("lmzoo.labels", "lmzoo.labels.tasks"), WORD_VECTORS: ("lmzoo.words.vectors",)}
    for module in modules.get(kind, ("lmzoo.models",)):
        importlib.import_module(module)
    return REGISTRIES[kind.learner], REGISTRIES[kind.text]


def inherited_options(settings: Mapping[str, Any], find: Callable[[str], str]) -> dict[str, dict[str, Any]]:
    """The options of other runs that replace defaults, by group.

    ``model`` has those of the run ``trainer.from``, except sources of that run. ``corpus`` has the text processing of
    the run ``corpus.vocabulary``. A run that has begun uses its own saved options, since the others may be gone.

    Args:
        settings: a resolved Hydra configuration.
        find: maps an abbreviation to the path of a run.
    """
    begun = flatten(saved(settings["run_dir"])) if settings["run_dir"] else {}

    def holder(group: str, option: str) -> str | None:
        """The folder with the configuration to inherit from, for an option that names a run."""
        source = renamed_value(settings.get(group, {}).get(option), find)
        if source and begun.get(f"{group}.{option}") == source:
            return settings["run_dir"]
        first = source[0] if isinstance(source, list) and source else source
        return first if isinstance(first, str) else None

    groups: dict[str, dict[str, Any]] = {}
    started_from, vocabulary = (holder(*source) for source in SOURCES)
    if started_from:
        model = saved(started_from).get("model")
        if isinstance(model, dict) and model.get("name") == settings["model"]["name"]:
            models = registries(LANGUAGE_MODEL)[0]
            sources = models.sources(model) if model["name"] in models.entries else {}
            groups["model"] = {name: value for name, value in model.items() if f"model.{name}" not in sources}
    if vocabulary:
        groups["corpus"] = form_of_run(vocabulary)
    return {
        group: {name: value for name, value in options.items()
                if name in settings[group] and "${" not in json.dumps(value, default=str)}  # no ${oc.env:HOME}
        for group, options in groups.items()
    }  # fmt: skip


def _digest(options: Mapping[str, Any]) -> str:
    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(part) for part in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    pairs = sorted((key, whole(value)) for key, value in options.items())
    return sha256(json.dumps(pairs, default=str).encode())


def _of_steps(option: str) -> bool:
    """Whether an option concerns only gradient descent."""
    return option.startswith(("optimizer.", "schedule.", "trainer.")) and option not in (
        "trainer.first_tokens", "trainer.from",
    )  # fmt: skip


def short_names(keys: Iterable[str]) -> dict[str, str]:
    """The last component of each key (``optimizer.lr`` -> ``lr``), or the whole key if that component is not unique."""
    keys = list(keys)
    ends = Counter(key.rpartition(".")[2] for key in keys)
    return {key: end if ends[end := key.rpartition(".")[2]] == 1 else key for key in keys}


def differing_options(options: Sequence[Mapping[str, Any]], learner: str, names: Mapping[str, str]) -> list[str]:
    """For each run, the options in which it differs from others of the same learner, as in ``hidden=200 lr=0.1``.

    Args:
        options: the options of each run by their full names.
        learner: the option with the name of the learner.
        names: the options to compare, and what they are called.
    """
    found = []
    for own in options:
        alike = [other for other in options if other.get(learner) == own.get(learner)]
        differing = [key for key in names if key in own and any(other.get(key) != own[key] for other in alike)]
        found.append(" ".join(f"{names[key]}={format_value(own[key])}" for key in differing))
    return found
