"""Names and what they build."""

from abc import ABC, abstractmethod

import pytest

from lmzoo.core.errors import UserError
from lmzoo.core.options import Size
from lmzoo.core.registry import Registry


@pytest.fixture
def machines() -> Registry:
    registry = Registry("machine")

    @registry.register("adder")
    def adder(given: str, *, size: Size) -> tuple[int, str]:
        return size, given

    return registry


def test_a_name_builds_its_entry(machines: Registry):
    assert machines.build({"name": "adder", "size": 3}, given="by the program") == (3, "by the program")


def test_a_class_without_a_method_of_its_base_is_refused(machines: Registry):
    class Base(ABC):
        @abstractmethod
        def go(self): ...

    with pytest.raises(UserError, match="machine 'cart' has no go; define it in its class"):
        machines.register("cart")(type("Cart", (Base,), {}))


def test_a_name_can_be_registered_only_once(machines: Registry):
    first = machines.entries["adder"]
    told = rf"machine 'adder' is taken by test_registry\.machines\.<locals>\.adder of {__file__}; choose another name"
    with pytest.raises(UserError, match=told):
        machines.register("adder")(lambda: None)
    assert machines.entries == {"adder": first}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "addr", "size": 3}, "machine.name=addr: no such machine; did you mean 'adder'?"),
        ({"name": ["adder"], "size": 3}, "machine.name=['adder']: no such machine; did you mean 'adder'?"),
        ({"size": 3}, "machine.name=null: no such machine; choose from: adder"),
        ({"name": "adder", "siz": 3}, "machine.siz: no such option; did you mean 'size'?"),
        ({"name": "adder", "size": 3, "given": "by the user"}, "machine.given: no such option; choose from: size"),
        ({"name": "adder", "size": 3, "speed": 1}, "machine.speed: is an option of machine=fan, not of machine=adder"),
        ({"name": "adder", "size": 0}, "machine.size=0: must be at least 1"),
        ({"name": "adder"}, "machine.size is missing: it must be an integer"),
    ],
)
def test_mistakes_are_named(machines: Registry, options: dict, message: str):
    if "speed" in options:

        @machines.register("fan")
        def fan(*, speed: int) -> int:
            return speed

    with pytest.raises(UserError) as raised:
        machines.build(options, given="by the program")
    assert str(raised.value) == message


def test_an_error_of_a_plugin_s_entry_is_a_line_that_names_it(machines: Registry, monkeypatch: pytest.MonkeyPatch):
    @machines.register("broken")
    def broken(*, error: str) -> None:
        raise {"KeyError": KeyError("why"), "OSError": OSError("disk"), "UserError": UserError("no", "yes")}[error]

    told = r"^machine=broken: \S*test_registry\.py:\d+: KeyError: 'why'; fix the code that raises this$"
    with pytest.raises(UserError, match=told):
        machines.build({"name": "broken", "error": "KeyError"})
    with pytest.raises(OSError, match="disk"):
        machines.build({"name": "broken", "error": "OSError"})
    with pytest.raises(UserError, match=r"^no; yes$"):
        machines.build({"name": "broken", "error": "UserError"})
    monkeypatch.setattr(broken, "__module__", "lmzoo.models.broken")
    with pytest.raises(KeyError):  # a mistake of the package, not of its user
        machines.build({"name": "broken", "error": "KeyError"})


def test_an_entry_may_have_other_defaults_by_another_name():
    registry = Registry("pair")

    @registry.register("same")
    @registry.register("wide", size=3)
    def pair(*, size: Size = 1, depth: Size = 1) -> tuple[int, int]:
        return size, depth

    assert registry.defaults("wide") == {"size": 3, "depth": 1}
    assert registry.build({"name": "wide"}) == (3, 1)
    assert registry.build({"name": "wide", "size": 5}) == (5, 1)
    assert registry.build({"name": "same"}) == (1, 1)
