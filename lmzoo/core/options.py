"""Types, bounds and defaults of options.

The options of an entry are a subclass of `Options`: a frozen dataclass with a docstring below each field. `configured`
turns it into keywords of a constructor or function. The keyword-only parameters of a function are its options; the
annotation of each is its type, and ``Annotated[..., Bounds(...)]`` its range.
"""

import contextlib
import functools
import inspect
import json
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from keyword import iskeyword
from numbers import Integral, Number
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, dataclass_transform, overload

from lmzoo.core.errors import UserError, format_value, nearest, shortened


@dataclass(frozen=True)
class Bounds:
    """The interval of an option. ``open_above`` excludes the upper end."""

    low: float | None = None
    high: float | None = None
    open_above: bool = False

    def violation(self, value: float) -> str | None:
        """The requirement that a value violates; None if it is inside."""
        if self.low is not None and value < self.low:
            return f"at least {self.low}"
        if self.high is not None and (value > self.high or (self.open_above and value == self.high)):
            return f"{'below' if self.open_above else 'at most'} {self.high}"
        return None


Size = Annotated[int, Bounds(low=1, high=2**31 - 1)]
Count = Annotated[int, Bounds(low=0, high=2**31 - 1)]
Depth = Annotated[int, Bounds(low=1, high=100)]
"""The range of numbers of layers, orders of n-grams, and other depths."""
Seed = Annotated[int, Bounds(low=0, high=2**32 - 1)]
LongSeed = Annotated[int, Bounds(low=0, high=2**63 - 1)]
"""The range of seeds of sampled texts, each of which has the next one."""
NonNegative = Annotated[float, Bounds(low=0, high=1e30)]
Probability = Annotated[float, Bounds(low=0, high=1)]
BelowOne = Annotated[float, Bounds(low=0, high=1, open_above=True)]
Dropout = BelowOne


@dataclass(frozen=True)
class Described:
    """The description of an option's type in error messages."""

    text: str


class Idle:
    """Marks the type of an option that has no effect if other options have certain values.

    Args:
        where: options, each followed by values, as in ``("corpus.context", "sentence")``; all of them must apply.
    """

    def __init__(self, *where: tuple[Any, ...]):
        self.where = where

    def reason(self, settings: Mapping[str, Any]) -> str | None:
        """The flattened options that make this one ineffective, as written; None if it has an effect."""
        if not all(option in settings and settings[option] in values for option, *values in self.where):
            return None
        return " and ".join(format_option(option, settings[option]) for option, *_ in self.where)


class Initial(Idle):
    """Marks the type of an option of the initial weights alone, which has no effect with ``trainer.from``."""

    def __init__(self) -> None:
        super().__init__(("trainer.from",))

    def reason(self, settings: Mapping[str, Any]) -> str | None:
        source = settings.get("trainer.from")
        return format_option("trainer.from", source) if source else None


def format_option(option: str, value: Any) -> str:
    """Format an option as on a command line: ``corpus.context=sentence``, ``model=lstm``, ``trainer.average=null``."""
    return f"{option.removesuffix('.name')}={format_value(value)}"


class _Origin:
    """Marks the type of an option whose value is a source of the run."""


Source = Annotated[str, _Origin()]
"""A file, or the folder of a run, from which a run is made. The run records its checksum."""


Keywords = ParamSpec("Keywords")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
O = TypeVar("O", covariant=True)  # noqa: E741
R = TypeVar("R")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Options:
    """The options of an entry: every subclass is a frozen, keyword-only dataclass with validated values.

    A subclass inherits the fields of its bases. The field of an option that is a Python keyword ends in ``_``.

    Raises: UserError if a value has the wrong type or is out of bounds.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.__annotations__ = inspect.get_annotations(cls, eval_str=True)  # annotations may be strings
        dataclass(frozen=True, kw_only=True)(cls)
        parameters = inspect.signature(cls.__init__).parameters
        order = dict.fromkeys(name for base in cls.__mro__ for name in inspect.get_annotations(base))
        own_first = [parameters[name] for name in order if name in parameters]
        setattr(cls, "__signature__", inspect.Signature(own_first))  # noqa: B010 - pyright knows no such attribute

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, _nested(tuple, value))
        check(type(self), {name.removesuffix("_"): value for name, value in vars(self).items()}, "")

    def inherited(self, kind: "type[Options]") -> dict[str, Any]:
        """The options shared with a base, by name: ``super().__init__(size, **options.inherited(Base))``."""
        return {field.name: getattr(self, field.name) for field in fields(kind)}  # pyright: ignore[reportArgumentType]


def _nested(kind: type, value: Any) -> Any:
    """A value with ``kind``, list or tuple, for each list and tuple in it."""
    return kind(_nested(kind, part) for part in value) if isinstance(value, list | tuple) else value


class _Configured(Protocol[Keywords, O]):
    @overload
    def __call__(self, function: Callable[[O], R]) -> Callable[Keywords, R]: ...
    @overload
    def __call__(self, function: Callable[[A, O], R]) -> Callable[Concatenate[A, Keywords], R]: ...
    @overload
    def __call__(self, function: Callable[[A, B, O], R]) -> Callable[Concatenate[A, B, Keywords], R]: ...
    @overload
    def __call__(self, function: Callable[[A, B, C, O], R]) -> Callable[Concatenate[A, B, C, Keywords], R]: ...


def configured(options: Callable[Keywords, O]) -> _Configured[Keywords, O]:
    """Replace the last parameter ``options`` of a constructor or function by a keyword for each field.

    For type checkers, the parameters before it are positional only.
    """
    names = inspect.signature(options).parameters

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def flat(*positional: Any, **named: Any) -> Any:
            if unknown := [name for name in named if name not in (*before, *names)]:
                called = type(positional[0]) if function.__name__ == "__init__" else function
                problem = f"{called.__name__}() got an unexpected keyword argument '{unknown[0]}'"
                raise UserError(problem, nearest(unknown[0], names))
            own = {name: named.pop(name) for name in names if name in named}
            return function(*positional, **named, options=options(**own))  # pyright: ignore[reportCallIssue]

        before = dict(inspect.signature(function).parameters)
        if not before or before.popitem()[0] != "options":
            raise UserError(f"{function.__qualname__} does not have 'options' as its last parameter", "add it")
        flat.__signature__ = inspect.Signature([*before.values(), *names.values()])  # pyright: ignore[reportAttributeAccessIssue]
        return flat

    return decorate


def _describe(annotation: Any) -> str:
    if typing.get_origin(annotation) is Annotated:
        own, *extras = typing.get_args(annotation)
        return next((extra.text for extra in extras if isinstance(extra, Described)), None) or _describe(own)
    if typing.get_origin(annotation) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(annotation)))
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return " or ".join(_describe(part) for part in typing.get_args(annotation))
    if typing.get_origin(annotation) in (list, Sequence):
        return f"a list, each item {_describe(typing.get_args(annotation)[0])}"
    if typing.get_origin(annotation) is dict:
        return f"a group, each value {_describe(typing.get_args(annotation)[1])}"
    if annotation is types.NoneType:
        return "null"
    names = {int: "an integer", float: "a number", bool: "true or false", str: "a string", dict: "a group"}
    return names.get(annotation, str(annotation))


def unfit(value: Any, annotation: Any) -> str | None:
    """The type or bounds that a value violates; None if it is valid."""
    wrong = _violation(value, annotation)
    return _describe(annotation) if wrong == "" else wrong


def require(annotation: Any, **arguments: Any) -> None:
    """Raise a UserError if an argument does not fit the annotation; NumPy's integers are integers."""
    for name, value in arguments.items():
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if wrong := unfit(int(value) if whole else value, annotation):
            raise UserError(f"{name}={value!r}: must be {wrong}")


def _violation(value: Any, annotation: Any) -> str | None:
    """The bounds that a value violates; empty if its type is wrong, None if it is valid.

    An integer is a number, a boolean is not.
    """
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        found = [_violation(value, part) for part in arguments]
        return None if None in found else next(filter(None, found), "")
    if origin in (list, Sequence, dict):
        if not isinstance(value, dict if origin is dict else list | tuple):
            return ""
        items = value.values() if isinstance(value, dict) else value
        found = [_violation(item, arguments[-1]) for item in items]
        return "" if "" in found else next(filter(None, found), None)
    if origin is Annotated:
        wrong = _violation(value, arguments[0])
        if wrong is None and value != value:  # NaN lies in no interval
            return "a number"
        bounds = [extra.violation for extra in arguments[1:] if isinstance(extra, Bounds)]
        return next(filter(None, (violation(value) for violation in bounds)), None) if wrong is None else wrong
    if origin is Literal:
        fits = any(value == choice and type(value) is type(choice) for choice in arguments)
    elif annotation in (int, float):
        fits = isinstance(value, int | annotation) and not isinstance(value, bool)
    else:
        fits = annotation is Any or isinstance(value, annotation)
    return None if fits else ""


@functools.cache
def _keywords(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The keyword-only parameters of a function or constructor, by option name; ``from_`` is ``from``."""
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return {each.name.removesuffix("_"): each for each in parameters if each.kind is each.KEYWORD_ONLY}


def schema(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotation of each option of a function or constructor."""
    annotations = {name: parameter.annotation for name, parameter in _keywords(function).items()}
    return {name: Any if kind is inspect.Parameter.empty else kind for name, kind in annotations.items()}


def defaults_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The default of each option, as in YAML; None if there is none."""
    values = {name: parameter.default for name, parameter in _keywords(function).items()}
    return {name: None if value is inspect.Parameter.empty else _nested(list, value) for name, value in values.items()}


def option_refusal(group: str, option: str, holders: Iterable[str], chosen: str) -> UserError | None:
    """The error for an option of a group's other entries, not of the chosen one; None if no entry has it."""
    if not (having := ", ".join(sorted(holders))):
        return None
    return UserError(f"{group}.{option}: is an option of {group}={having}, not of {group}={chosen}")


def renamed_value(value: Any, name: Callable[[str], str]) -> Any:
    """Apply ``name`` to the value of an option, or to each item of a list; integers are treated as names."""
    if isinstance(value, list):
        return [renamed_value(part, name) for part in value]
    return name(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else value


def is_source(annotation: Any) -> bool:
    """Whether an option has the type `Source`, or a list or union that includes it."""
    arguments = typing.get_args(annotation)
    return any(isinstance(part, _Origin) or is_source(part) for part in arguments)


def call(function: Callable[..., Any], options: Mapping[str, Any], where: str, **supplied: Any) -> Any:
    """Call ``function(**options, **supplied)`` after `check`."""
    check(function, options, where, supplied)
    return function(**{f"{name}_" if iskeyword(name) else name: options[name] for name in options}, **supplied)


def check(function: Callable[..., Any], options: Mapping[str, Any], where: str, supplied: Collection[str] = ()) -> None:
    """Validate options against a function's signature; those with a default may be omitted.

    Args:
        where: the prefix of the options in the configuration (``model.``, ``trainer.`` or none), for messages.
        supplied: arguments added by the program, which a configuration may not set.

    Raises: UserError if an option is unknown, missing, of the wrong type or out of bounds.
    """
    expected = {name: annotation for name, annotation in schema(function).items() if name not in supplied}
    for name in options:
        if name not in expected:
            raise UserError(f"{where}{shortened(name)}: no such option", nearest(str(name), expected))
    for name, annotation in expected.items():
        if name not in options:
            if _keywords(function)[name].default is not inspect.Parameter.empty:
                continue
            raise UserError(f"{where}{name} is missing: it must be {_describe(annotation)}")
        value = options[name]
        if wrong := unfit(value, annotation):
            raise UserError(f"{where}{name}={shortened(value)}: must be {wrong}", _about_type(value, annotation))


def _about_type(value: Any, annotation: Any) -> str | None:
    """Advice if a value is invalid only for its quotes, or as a number of numpy: 2 is a number, "2" is not."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError, RecursionError):
            return "leave out its quotes" if unfit(json.loads(value), annotation) is None else None
    item = getattr(value, "item", None)
    if isinstance(value, Number) and item and unfit(item(), annotation) is None:
        return "give its item(), a number of Python"
    if isinstance(value, bool | int | float) and "a string" in _describe(annotation).split(" or "):
        return "quote it, in the shell's quotes too: 'key=\"value\"'"
    return None
