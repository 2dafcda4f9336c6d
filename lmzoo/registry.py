"""Things that configuration can name, and the check of their options against their signatures.

The constructor's signature is the schema: every option is a required keyword-only argument, its
annotation is its type, and ``Annotated[..., Bounds(...)]`` is its range. Defaults live in YAML alone.
"""

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeVar

from lmzoo.errors import UserError

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True)
class Bounds:
    """The interval an option must lie in; ``open_above`` leaves the upper end out."""

    low: float | None = None
    high: float | None = None
    open_above: bool = False

    def violation(self, value: float) -> str | None:
        """What the value should have been, or None where it lies inside."""
        if self.low is not None and value < self.low:
            return f"at least {self.low}"
        if self.high is not None and (value > self.high or (self.open_above and value == self.high)):
            return f"{'below' if self.open_above else 'at most'} {self.high}"
        return None


Size = Annotated[int, Bounds(low=1)]
Count = Annotated[int, Bounds(low=0)]
Seed = Annotated[int, Bounds(low=0, high=2**32 - 1)]
NonNegative = Annotated[float, Bounds(low=0)]
Probability = Annotated[float, Bounds(low=0, high=1)]
BelowOne = Annotated[float, Bounds(low=0, high=1, open_above=True)]
Dropout = BelowOne


def nearest(word: str, names: Iterable[str]) -> str:
    """A hint for an error message: ``; did you mean 'x'?``, or the list of names."""
    names = sorted(names)
    close = get_close_matches(word, names, n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else f"; there are: {', '.join(names) or 'none'}"


def _describe(annotation: Any) -> str:
    if typing.get_origin(annotation) is Annotated:
        return _describe(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(annotation)))
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return " or ".join(_describe(part) for part in typing.get_args(annotation))
    if typing.get_origin(annotation) is list:
        return f"a list, each item {_describe(typing.get_args(annotation)[0])}"
    if annotation is types.NoneType:
        return "null"
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string", dict: "a group"}
    return names.get(annotation, str(annotation))


def _fits(value: Any, annotation: Any) -> bool:
    """Whether the value has the annotated type; an integer is a number, a boolean is not."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _fits(value, arguments[0])
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in arguments)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, part) for part in arguments)
    if origin is list:
        return isinstance(value, list) and all(_fits(item, arguments[0]) for item in value)
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return annotation is Any or isinstance(value, annotation)


def _violation(value: Any, annotation: Any) -> str | None:
    """What a value of the right type should have been instead, by the bounds of its annotation."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return next((_violation(value, part) for part in arguments if _fits(value, part)), None)
    if origin is list:
        return next((wrong for item in value if (wrong := _violation(item, arguments[0]))), None)
    if origin is Annotated:
        bounds = [extra for extra in arguments[1:] if isinstance(extra, Bounds)]
        if value != value:  # NaN lies in no interval
            return "a number"
        return next((wrong for bound in bounds if (wrong := bound.violation(value))), None)
    return None


def call(function: Callable[..., Any], options: Mapping[str, Any], where: str, **given: Any) -> Any:
    """Call ``function(**options, **given)`` after checking the options against its signature.

    ``where`` is the options' place in the configuration (``model.``, ``trainer.``, nothing for the top),
    for messages; ``given`` are arguments the program supplies, which a configuration may not set.

    Raises: UserError naming an unknown, missing, ill-typed or out-of-range option.
    """
    hints = typing.get_type_hints(function.__init__ if inspect.isclass(function) else function, include_extras=True)
    names = [name for name in inspect.signature(function).parameters if name not in given]
    for name in options:
        if name not in names:
            raise UserError(f"{where}{name}: no such option{nearest(str(name), names)}")
    for name in names:
        if name not in options:
            raise UserError(f"{where}{name} is missing: it must be {_describe(hints[name])}")
        value, annotation = options[name], hints[name]
        if not _fits(value, annotation):
            raise UserError(f"{where}{name}={value}: must be {_describe(annotation)}")
        if wrong := _violation(value, annotation):
            raise UserError(f"{where}{name}={value}: must be {wrong}")
    return function(**options, **given)


class Registry:
    """Names of one kind (``model``, ``corpus``, …) and what each of them builds."""

    def __init__(self, kind: str):
        self.kind = kind
        self.entries: dict[str, Callable[..., Any]] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Class or function decorator: ``@models.register("lstm")``."""

        def decorate(entry: T) -> T:
            if name in self.entries:
                raise ValueError(f"{self.kind} '{name}' is registered twice")
            self.entries[name] = entry
            return entry

        return decorate

    def build(self, options: Mapping[str, Any], **given: Any) -> Any:
        """Build the entry that ``options['name']`` names from the other options.

        Raises: UserError for a name that is not registered, and as `call` does.
        """
        options = dict(options)
        name = options.pop("name", None)
        if name not in self.entries:
            raise UserError(f"{self.kind}.name={name}: no such {self.kind}{nearest(str(name), self.entries)}")
        return call(self.entries[name], options, f"{self.kind}.", **given)


models = Registry("model")
