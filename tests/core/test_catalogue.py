"""What the source files say of options is what the classes have, and every option is explained."""

import ast
import importlib
from pathlib import Path

import pytest

import lmzoo.labels
import lmzoo.models
import lmzoo.words.vectors  # noqa: F401 - their imports register the entries
from lmzoo.core import catalogue
from lmzoo.core.catalogue import entries
from lmzoo.core.configs import choices
from lmzoo.core.errors import UserError
from lmzoo.core.options import Options
from lmzoo.core.registry import Registry
from lmzoo.corpus.entries import corpora
from lmzoo.labels.model import labellers
from lmzoo.labels.tasks import tasks
from lmzoo.protocol.model import models
from lmzoo.runs.trainer_options import trainers
from lmzoo.training.optimization import optimizers, schedules
from lmzoo.words.vectors.method import methods

REGISTRIES = (models, corpora, optimizers, schedules, trainers, labellers, tasks, methods)


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_the_text_says_what_the_classes_have(registry: Registry):
    read = catalogue._entries()[registry.kind]
    assert read.keys() == registry.entries.keys()
    for name, entry in read.items():
        assert [*entry.defaults.items()] == [*registry.defaults(name).items()], name


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.kind)
def test_every_entry_and_every_option_is_explained(registry: Registry):
    for name, entry in entries(registry.kind).items():
        assert entry.title, name
        assert [option for option, (_, text) in entry.options.items() if not text or text.startswith("see ")] == [], (
            name
        )


def test_choices_are_those_of_the_type():
    said = entries("model")["rnn"].options
    assert said["activation"].text == "f, tanh or max(0, x); Le, Jaitly & Hinton (2015). [tanh | relu]"
    assert said["clustering"].text.endswith(" [brown | uniform | frequency]")
    assert said["init_recurrent"].text.endswith(" [orthogonal | identity | graded | null]")
    assert not said["classes"].text.endswith("]")


def test_no_option_is_defined_differently_by_two_bases():
    """Then neither default would be meant; the class must say its own."""
    classes = [Options]
    for kind in classes:
        classes += kind.__subclasses__()
    for kind in classes:
        own = vars(kind).get("__annotations__", {})
        for name in {
            name for base in kind.__bases__ for name in getattr(base, "__dataclass_fields__", ())
        } - own.keys():
            found = [base.__dataclass_fields__[name] for base in kind.__bases__
                     if name in getattr(base, "__dataclass_fields__", ())]  # fmt: skip
            assert len({repr((field.type, field.default)) for field in found}) == 1, (kind, name)


RECURRENT = """
    zoneout: Dropout = 0.0
    \"\"\"the rate at which a unit keeps its former value; Krueger et al. (2017).\"\"\"
"""


def test_an_option_of_all_recurrent_networks_is_added_in_one_place(monkeypatch: pytest.MonkeyPatch):
    file = Path(catalogue.PACKAGE, "models/neural/recurrent.py")
    changed = file.read_text("utf-8").replace("    hidden: Size = 200\n", f"{RECURRENT}    hidden: Size = 200\n", 1)
    read = Path.read_text
    caches = (catalogue._entries, catalogue._statements, catalogue._registered, catalogue._names)
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(Path, "read_text", lambda path, coding: changed if path == file else read(path, coding))
    having = [name for name in choices("model") if "zoneout" in catalogue._entries()["model"][name].options]
    for cached in caches:
        cached.cache_clear()
    assert having == ["gru", "lds_rnn", "lstm", "rnn"]


PLUGIN = '''
from __future__ import annotations
import math
import lmzoo.core.options
from lmzoo.core.options import NonNegative, Options, Size, configured
from lmzoo.protocol.model import models

class UnitOptions({options}):
    """Its options."""
    hidden: Size = 2 * 8
    """units."""
    scale: NonNegative = math.pi

@models.register("units", **{{"scale": 2.0}})
class Units:
    """A model of units."""
    @{configured}(UnitOptions)
    def __init__(self, vocabulary_size: int, options: UnitOptions):
        self.hidden = options.hidden
'''


@pytest.mark.parametrize(("prefix", "said"), [("", "units."), ("lmzoo.core.options.", "")])
def test_the_defaults_of_a_plugin_are_those_of_its_classes(
    prefix: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Whatever Python allows there: computed values, deferred annotations, qualified names."""
    monkeypatch.setattr(models, "entries", dict(models.entries))
    monkeypatch.syspath_prepend(tmp_path)
    name = f"plugin_of_units_{len(prefix)}"
    (tmp_path / f"{name}.py").write_text(PLUGIN.format(options=f"{prefix}Options", configured=f"{prefix}configured"))
    importlib.import_module(name)
    entry = entries("model")["units"]
    assert (entry.title, entry.defaults) == ("A model of units.", {"hidden": 16, "scale": 2.0})
    assert (entry.options["hidden"].text, entry.named) == (said, True)
    assert models.build({"name": "units", "hidden": 3}, vocabulary_size=4).hidden == 3
    with pytest.raises(UserError, match=r"^model\.hidden=0: must be at least 1"):
        models.check({"name": "units", "hidden": 0})


def test_public_classes_have_docstrings_unless_their_fields_have():
    """The ruff rule D101, but for classes of options."""
    nodes = [(file, node) for file in sorted(catalogue.PACKAGE.rglob("*.py")) for node in catalogue._statements(file)]
    classes = [(file.name, node) for file, node in nodes if isinstance(node, ast.ClassDef)]
    bare = [(file, node.name) for file, node in classes if not ast.get_docstring(node)]
    assert [(file, name) for file, name in bare if not name.startswith("_") and not name.endswith("Options")] == []
