"""Registries of named entries for the configuration."""

import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from lmzoo.core.errors import UserError, error_location, nearest, out_of_memory, shortened
from lmzoo.core.options import Idle, call, check, defaults_of, is_source, option_refusal, renamed_value, schema, unfit

T = TypeVar("T", bound=Callable[..., Any])

REGISTRIES: dict[str, "Registry"] = {}
"""All imported registries, by kind."""


class Registry:
    """Entries of one kind (``model``, ``corpus``, …) by name."""

    def __init__(self, kind: str):
        self.kind = kind
        self.entries: dict[str, Callable[..., Any]] = {}
        self.presets: dict[str, dict[str, Any]] = {}
        REGISTRIES[kind] = self

    def register(self, name: str, **defaults: Any) -> Callable[[T], T]:
        """Decorate a class or function, ``@models.register("lstm")``; ``defaults`` override those of its signature.

        Raises: UserError if another entry has the name, or if a class lacks a method of its base.
        """

        def decorate(entry: T) -> T:
            if missing := getattr(entry, "__abstractmethods__", None):
                raise UserError(f"{self.kind} '{name}' has no {', '.join(sorted(missing))}", "define it in its class")
            other = self.entries.get(name, entry)
            if (other.__module__, other.__qualname__) != (entry.__module__, entry.__qualname__):
                file = getattr(sys.modules.get(other.__module__), "__file__", None) or "no file"
                problem = f"{self.kind} '{name}' is taken by {other.__module__}.{other.__qualname__} of {file}"
                raise UserError(problem, "choose another name")
            self.entries[name], self.presets[name] = entry, defaults
            return entry

        return decorate

    def defaults(self, name: str) -> dict[str, Any]:
        """The defaults of an entry, as in YAML."""
        return defaults_of(self.entries[name]) | self.presets.get(name, {})

    def build(self, options: Mapping[str, Any], **supplied: Any) -> Any:
        """Build the entry ``options["name"]`` from the other options after `check`.

        Raises: UserError also for an error in the code of a plug-in, with its location.
        """
        entry, own = self._entry(options)
        try:
            return call(entry, own, f"{self.kind}.", **supplied)
        except Exception as error:
            mistake = not (isinstance(error, UserError | OSError) or out_of_memory(error))
            if mistake and not entry.__module__.startswith("lmzoo."):
                problem = f"{self.kind}={options['name']}: {error_location(error)}"
                raise UserError(problem, "fix the code that raises this") from error
            raise

    def check(self, options: Mapping[str, Any]) -> None:
        """Validate options without building the entry."""
        entry, options = self._entry(options)
        check(entry, options, f"{self.kind}.")

    def sources(self, options: Mapping[str, Any]) -> dict[str, list[str]]:
        """The values of options of type `Source`, by full option name."""
        entry, options = self._entry(options)
        found = {}
        for name, annotation in schema(entry).items():
            value = options.get(name)
            if value and is_source(annotation) and not unfit(value, annotation):
                found[f"{self.kind}.{name}"] = [value] if isinstance(value, str) else list(value)
        return found

    def idle(self, settings: Mapping[str, Any]) -> dict[str, str]:
        """The options without effect in a run with these flattened settings, and the reasons; see `Idle`."""
        entry, found = self.entries.get(str(settings.get(f"{self.kind}.name", "default"))), {}
        for name, annotation in schema(entry).items() if entry else ():
            marks = [mark for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Idle)]
            found |= {f"{self.kind}.{name}": reason for mark in marks if (reason := mark.reason(settings))}
        return found

    def renamed(self, options: Mapping[str, Any], name: Callable[[str], str]) -> dict[str, Any]:
        """A copy of options in which each `Source` value v is replaced by ``name(v)``."""
        annotations = schema(self._entry(options)[0])
        return {key: renamed_value(value, name) if is_source(annotations.get(key)) else value
                for key, value in options.items()}  # fmt: skip

    def _entry(self, options: Mapping[str, Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
        options = dict(options)
        name = options.pop("name", None)
        if not isinstance(name, str) or name not in self.entries:
            problem = f"{self.kind}.name={shortened(name)}: no such {self.kind}"
            raise UserError(problem, nearest(str(name), self.entries))
        for option in options.keys() - schema(self.entries[name]).keys():
            holders = [other for other, entry in self.entries.items() if option in schema(entry)]
            if refusal := option_refusal(self.kind, option, holders, name):
                raise refusal
        return self.entries[name], {**self.presets.get(name, {}), **options}
