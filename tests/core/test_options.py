"""Options: what is wrong with them is said in one line, for every option of everything that takes any."""

import inspect
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass
from typing import Annotated, Any, Literal

import pytest

import lmzoo.models  # noqa: F401 - its import registers them
from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError, format_value
from lmzoo.core.options import BelowOne, Bounds, Count, Idle, Probability, Size, call, configured, defaults_of, schema
from lmzoo.core.options import Options as OptionsOf
from lmzoo.corpus.entries import corpora
from lmzoo.protocol.model import models
from lmzoo.runs.command_options import TrainOptions
from lmzoo.runs.trainer_options import TrainerOptions
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
    yield Options("settings", TrainOptions, "", SETTINGS, frozenset())
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
    return {list if origin is Sequence else origin or annotation}


def out_of_bounds(annotation: Any) -> Iterator[Any]:
    """Values of the right type that lie just outside its bounds, and no number where a number is wanted."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        for part in arguments:
            yield from out_of_bounds(part)
    elif origin in (list, Sequence):
        for value in wrong_values(arguments[0]):
            yield [value]
    elif origin is Annotated:
        yield from out_of_bounds(arguments[0])
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
        assert message.startswith(f"{options.where}{name}={format_value(value)}: must be "), message
        assert "\n" not in message


@pytest.mark.parametrize("options", EVERYBODY, ids=lambda options: options.name)
def test_the_configuration_has_every_option_and_no_other(options: Options):
    assert set(options.right) == set(schema(options.who)) - options.given


class Shared(OptionsOf):
    """Options that several classes have."""

    states: Size = 4
    tied: bool = True


class More(Shared):
    """And further ones, of which one has no default."""

    order: Count
    dropout: BelowOne = 0.5
    parent: str | None = None
    sizes: Sequence[Size] = (1, 2)
    from_: str | None = None


class Machine:
    """Takes them by keyword."""

    @configured(More)
    def __init__(self, vocabulary_size: int, options: More):
        self.vocabulary_size, self.options = vocabulary_size, options


class Child(Machine):
    """Has its parent's constructor."""


RIGHT = {"order": 2, "states": 4}


@pytest.mark.parametrize("machine", [Machine, Child])
def test_options_are_keywords_of_a_constructor_its_own_first(machine: type[Machine]):
    assert list(schema(machine).items()) == [
        ("order", Count), ("dropout", BelowOne), ("parent", str | None), ("sizes", Sequence[Size]),
        ("from", str | None), ("states", Size), ("tied", bool),
    ]  # fmt: skip
    assert defaults_of(machine) == {
        "order": None, "dropout": 0.5, "parent": None, "sizes": [1, 2], "from": None, "states": 4, "tied": True
    }  # fmt: skip
    assert str(inspect.signature(Machine)).startswith("(vocabulary_size: int, *, order: ")
    made = call(machine, RIGHT | {"from": "run", "sizes": [3]}, "model.", vocabulary_size=7)
    assert (made.vocabulary_size, made.options) == (7, More(order=2, states=4, from_="run", sizes=(3,)))


@pytest.mark.parametrize("function", [lambda size: size, lambda options, size: size, lambda: None])
def test_a_constructor_without_options_as_its_last_parameter_is_refused(function: Any):
    with pytest.raises(UserError, match="<lambda> does not have 'options' as its last parameter; add it"):
        configured(More)(function)


def test_options_are_frozen_checked_and_hashable():
    made = machine(7, order=2, sizes=[3, 4])
    assert made.options.sizes == (3, 4)
    assert hash(made.options) == hash(More(order=2, sizes=(3, 4)))
    assert made.options.inherited(Shared) == {"states": 4, "tied": True}
    with pytest.raises(FrozenInstanceError):
        made.options.states = 3  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(UserError, match=r"^states=0: must be at least 1"):
        machine(7, order=2, states=0)
    with pytest.raises(UserError, match="unexpected keyword argument 'stats'"):
        machine(7, order=2, stats=1)
    with pytest.raises(TypeError, match="order"):
        machine(7)


def machine(*given: Any, **named: Any) -> Machine:
    return Machine(*given, **named)


def test_the_options_of_a_plain_function_are_its_keywords():
    def function(text: str, *, train: Size, states: Size = 2) -> tuple[str, int, int]:
        return text, train, states

    assert schema(function) == {"train": Size, "states": Size}
    assert call(function, {"train": 1}, "", text="a") == ("a", 1, 2)


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


def test_an_option_without_a_default_is_required():
    with pytest.raises(UserError, match=r"^model\.order is missing: it must be an integer"):
        call(Machine, {"states": 4}, "model.", vocabulary_size=7)


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
        (Annotated[BelowOne | None, Idle(("model.layers", 1))], 1.5, "must be below 1"),
        (Annotated[Sequence[Count], Idle(("model.layers", 1))], [-1], "must be at least 0"),
    ],
)
def test_what_is_wrong_is_said(annotation: Any, value: Any, message: str):
    def function(*, option: Any) -> Any:
        return option

    function.__annotations__["option"] = annotation
    with pytest.raises(UserError) as raised:
        call(function, {"option": value}, "trainer.")
    assert str(raised.value) == f"trainer.option={format_value(value)}: {message}"
