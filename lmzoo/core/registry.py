"""Registries of named entries for the configuration."""

import inspect
import sys
from collections.abc import Callable, Mapping
from traceback import walk_tb
from typing import Any, TypeVar

from lmzoo.core.errors import (
    Interrupted,
    UserError,
    code_location,
    error_location,
    nearest,
    out_of_memory,
    package_of,
    shortened,
)
from lmzoo.core.options import Idle, call, check, defaults_of, is_source, option_refusal, renamed_value, schema, unfit

T = TypeVar("T", bound=Callable[..., Any])

REGISTRIES: dict[str, "Registry"] = {}
"""All imported registries, by kind."""


def is_plugin(code: Any) -> bool:
    """Whether a class or function is a plug-in's, not of this package."""
    return _package(code) != _package(is_plugin)


def _package(code: Any) -> str:
    return code.__module__.partition(".")[0]


def plugin_error(error: Exception, entry: Callable[..., Any] | None = None) -> UserError | None:
    """The error of one line, with file and line, for a mistake in the code of a plug-in; None for any other error.

    A mistake is an error that its code raises or passes on, but for a lack of memory; and an error of the package for
    an attribute that its constructor has not set.

    Args:
        entry: what was called; if it is a plug-in's, so are all its errors, such as that of a parameter that it lacks.
    """
    if isinstance(error, UserError | Interrupted) or out_of_memory(error):
        return None
    entries = [each for registry in REGISTRIES.values() for each in registry.entries.values()]
    packages = {_package(each) for each in entries if is_plugin(each)}
    inside = [package_of(frame) for frame, _ in walk_tb(error.__traceback__)]
    readers = [package for package in inside if package != "torch"]  # whose modules raise it in __getattr__
    if isinstance(error, AttributeError) and readers[-1:] == [_package(is_plugin)]:
        own = next((kind for kind in type(error.obj).__mro__ if "__init__" in vars(kind)), object)
        if _package(own) in packages:
            code = inspect.unwrap(vars(own)["__init__"]).__code__
            problem = f"{code_location(code.co_filename, code.co_firstlineno)}: AttributeError: {error}"
            return UserError(problem, "set it in __init__, or call super().__init__() there")
    if packages.intersection(inside) if entry is None else is_plugin(entry):
        return UserError(error_location(error, packages), "fix the code that raises this")
    return None


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
            if not isinstance(error, OSError) and (mistake := plugin_error(error, entry)):
                raise UserError(f"{self.kind}={options['name']}: {mistake.problem}", mistake.advice) from error
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
