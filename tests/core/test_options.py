"""Options: what is wrong with them is said in one line, for every option of everything that takes any."""

import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, Unpack

import pytest

import lmzoo.models  # noqa: F401 - its import registers them
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError, plain
from lmzoo.core.options import BelowOne, Bounds, Count, Probability, Size, call, schema
from lmzoo.corpus.entries import corpora
from lmzoo.protocol.model import models
from lmzoo.runs.trainer_options import TrainerOptions
from lmzoo.training import language_models
from lmzoo.training.optimization import optimizers, schedules

GIVEN = {
    models: {"vocabulary_size"},
    corpora: set(),
    optimizers: {"parameters"},
    schedules: {"optimizer", "steps_per_epoch", "steps"},
}
"""The registries, and what the program supplies to their entries."""
SETTINGS = {"seed": 0, "device": "cpu", "deterministic": False, "run_dir": "run", "plugins": []} | {
    group: {} for group in ("corpus", "model", "optimizer", "schedule", "trainer")
}

VALUES = {str: "many", bool: True, int: 3, float: 0.5, list: [None], dict: {"a": None}, types.NoneType: None}
"""A value of every type that YAML has."""


@dataclass(frozen=True)
class Options:
    """Somebody who takes options, where in the configuration they are, and options that are right."""

    name: str
    who: Callable[..., Any]
    where: str
    right: Mapping[str, Any]
    given: frozenset[str]


def takers() -> Iterator[Options]:
    yield Options("settings", language_models.Options, "", SETTINGS, frozenset())
    yield Options("trainer", TrainerOptions, "trainer.", defaults("trainer", "default"), frozenset())
    for registry, given in GIVEN.items():
        for name, entry in registry.entries.items():
            right = {key: value for key, value in defaults(registry.kind, name).items() if key != "name"}
            yield Options(name, entry, f"{registry.kind}.", right, frozenset(given))


EVERYBODY = list(takers())


def accepted(annotation: Any) -> set[type]:
    """The types of YAML's values that an annotation allows; a list's items are another matter."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return accepted(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return set().union(*map(accepted, arguments))
    if origin is Literal:
        return set()  # "many" is none of the choices
    if annotation is float:
        return {int, float}
    return {origin or annotation}


def out_of_bounds(annotation: Any) -> Iterator[Any]:
    """Values of the right type that lie just outside its bounds, and no number where a number is wanted."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        for part in arguments:
            yield from out_of_bounds(part)
    elif origin is list:
        for value in wrong_values(arguments[0]):
            yield [value]
    elif origin is Annotated:
        whole = arguments[0] is int
        for bounds in (part for part in arguments[1:] if isinstance(part, Bounds)):
            if bounds.low is not None:
                yield bounds.low - 1 if whole else math.nextafter(bounds.low, -math.inf)
            if bounds.high is not None:
                yield bounds.high + 1 if whole else math.nextafter(bounds.high, math.inf)
            if bounds.open_above:
                yield bounds.high
    if float in accepted(annotation):
        yield math.nan


def wrong_values(annotation: Any) -> list[Any]:
    """Values of every wrong type, and values outside the bounds."""
    right = accepted(annotation)
    return [value for kind, value in VALUES.items() if kind not in right] + list(out_of_bounds(annotation))


CASES = [
    pytest.param(options, name, annotation, id=f"{options.name} {name}")
    for options in EVERYBODY
    for name, annotation in schema(options.who).items()
    if name not in options.given
]


@pytest.mark.parametrize(("options", "name", "annotation"), CASES)
def test_a_wrong_value_is_refused_in_one_line_that_names_the_option(options: Options, name: str, annotation: Any):
    given: dict[str, Any] = dict.fromkeys(options.given)
    assert len(wrong_values(annotation)) > 2
    for value in wrong_values(annotation):
        with pytest.raises(UserError) as raised:
            call(options.who, {**options.right, name: value}, options.where, **given)
        message = str(raised.value)
        assert message.startswith(f"{options.where}{name}={plain(value)}: must be "), message
        assert "\n" not in message


@pytest.mark.parametrize("options", EVERYBODY, ids=lambda options: options.name)
def test_the_configuration_has_every_option_and_no_other(options: Options):
    assert set(options.right) == set(schema(options.who)) - options.given


class Shared(TypedDict):
    """Options that several classes have."""

    states: Size
    tied: bool


class More(Shared):
    """And further ones."""

    dropout: BelowOne
    parent: str | None


class Machine:
    """Takes an option of its own beside the shared ones."""

    def __init__(self, *, vocabulary_size: int, order: Count, **options: Unpack[More]):
        self.taken = {"vocabulary_size": vocabulary_size, "order": order, **options}


class Child(Machine):
    """Has its parent's constructor."""


RIGHT = {"order": 2, "states": 4, "tied": True, "dropout": 0.5, "parent": None}


@pytest.mark.parametrize("machine", [Machine, Child])
def test_shared_options_stand_beside_a_constructor_s_own(machine: type[Machine]):
    assert schema(machine) == {
        "vocabulary_size": int,
        "order": Count,
        "states": Size,
        "tied": bool,
        "dropout": BelowOne,
        "parent": str | None,
    }
    assert call(machine, RIGHT, "model.", vocabulary_size=7).taken == {"vocabulary_size": 7, **RIGHT}


def test_the_options_of_a_function_are_its_arguments():
    def function(*, train: Size, **shared: Unpack[Shared]) -> dict[str, Any]:
        return {"train": train, **shared}

    assert schema(function) == {"train": Size, "states": Size, "tied": bool}
    assert call(function, {"train": 1, "states": 2, "tied": False}, "") == {"train": 1, "states": 2, "tied": False}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"stats": 4}, r"model\.stats: no such option; did you mean 'states'\?"),
        ({"options": {}}, r"model\.options: no such option; "),
        ({"vocabulary_size": 4}, r"model\.vocabulary_size: no such option; "),
        ({"states": 0}, r"model\.states=0: must be at least 1"),
        ({"states": 4.0}, r"model\.states=4\.0: must be an integer"),
        ({"parent": 4}, r"model\.parent=4: must be a string or null"),
        ({"dropout": 1}, r"model\.dropout=1: must be below 1"),
    ],
)
def test_mistakes_in_shared_options_are_named(changed: Mapping[str, Any], message: str):
    with pytest.raises(UserError, match=f"^{message}"):
        call(Machine, RIGHT | changed, "model.", vocabulary_size=7)


@pytest.mark.parametrize("missing", RIGHT)
def test_every_option_is_required(missing: str):
    options = {name: value for name, value in RIGHT.items() if name != missing}
    with pytest.raises(UserError, match=f"model.{missing} is missing: it must be "):
        call(Machine, options, "model.", vocabulary_size=7)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Size, 1),
        (Count, 0),
        (Probability, 0),
        (Probability, 1),
        (Probability, 1.0),
        (BelowOne, 0),
        (BelowOne, math.nextafter(1, 0)),
        (Annotated[int, Bounds(high=3)], 3),
        (Annotated[float, Bounds()], math.inf),
        (Size | None, None),
        (Size | None, 1),
        (float, 3),
        (bool, False),
        (Literal["a", 2], 2),
        (list[Count], [0, 1]),
        (list[Count], []),
        (list[str | None], ["a", None]),
    ],
)
def test_what_lies_within_the_bounds_is_taken(annotation: Any, value: Any):
    def function(*, option: Any) -> Any:
        return option

    function.__annotations__["option"] = annotation
    assert call(function, {"option": value}, "") == value


def test_an_option_without_a_type_may_be_anything():
    def function(*, option, other: int) -> Any:
        return option, other

    assert call(function, {"option": "a", "other": 1}, "") == ("a", 1)


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (Literal["a", 2], True, "must be one of a, 2"),
        (Literal["a", 1], True, "must be one of a, 1"),
        (list[Count], [0, -1], "must be at least 0"),
        (list[Count], [0, "a"], "must be a list, each item an integer"),
        (Size | None, 0, "must be at least 1"),
        (Size | None, "a", "must be an integer or null"),
    ],
)
def test_what_is_wrong_is_said(annotation: Any, value: Any, message: str):
    def function(*, option: Any) -> Any:
        return option

    function.__annotations__["option"] = annotation
    with pytest.raises(UserError) as raised:
        call(function, {"option": value}, "trainer.")
    assert str(raised.value) == f"trainer.option={plain(value)}: {message}"
