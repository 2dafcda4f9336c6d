"""What makes the site of pages and code."""

import inspect
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("sphinx")
from typing import Annotated, Literal

import inventory
from command_line import ROOT
from docstrings import restructured
from docutils.core import publish_doctree
from layer_drawing import NODE, order
from options_of_code import ENTRIES, options, type_of
from sources import beside_docs, modules
from sphinx.util.inventory import InventoryFile

from lmzoo.core.configs import defaults
from lmzoo.core.options import Bounds, Dropout, Size, Source
from lmzoo.models.neural.nnlm import NNLM
from lmzoo.models.ngram import smoothing

DOCSTRING = """p(w | h) of one word_: *Title* of 3 * 4 and `Name`.

The first line of what follows is no sentence:

    p(w | h) = u_w * v*      (1)

Further,
    q = 1
or not.

| a | b |
|---|---|
| 1 | x* |

Args:
    one: of | these,
        continued.
    two: `Other`.

Raises: UserError for *every* mistake,
    and so on.
"""


def test_docstrings_are_read_as_they_are_meant():
    lines = restructured(DOCSTRING.splitlines())
    text = "\n".join(lines)
    sections = text.index("Args:")
    tree = publish_doctree(text[:sections] + text[text.index("*Raises:*") :], settings_overrides={"report_level": 5})
    assert not list(tree.findall(lambda node: node.tagname == "system_message"))
    assert tree.astext().startswith("p(w | h) of one word_: Title of 3 * 4 and Name.")
    blocks = [node.astext().strip() for node in tree.findall(lambda node: node.tagname == "literal_block")]
    assert blocks == ["p(w | h) = u_w * v*      (1)", "q = 1"]
    assert [cell.astext() for cell in tree.findall(lambda node: node.tagname == "entry")] == ["a", "b", "1", "x*"]
    assert lines[lines.index("Args:") + 1 :][:2] == [r"    one: of \| these,", "        continued."]


@pytest.mark.parametrize("what", [smoothing, NNLM])
def test_docstrings_of_the_zoo_are_read(what: type | ModuleType):
    text = "\n".join(restructured((inspect.getdoc(what) or "").splitlines())).partition("Args:")[0]
    tree = publish_doctree(text, settings_overrides={"report_level": 5})
    assert not list(tree.findall(lambda node: node.tagname == "system_message"))


def test_types_are_reported_in_words():
    assert type_of(Size) == "integer ≥ 1"
    assert type_of(Dropout) == "number ≥ 0 and < 1"
    assert type_of(Annotated[float, Bounds(high=2)]) == "number ≤ 2"
    assert type_of(Literal["a", "b"] | None) == "a | b or null"
    assert type_of(list[Source]) == "list, each run or file"


def test_a_table_has_every_option_of_each_entry_with_its_default():
    for group, entries in ENTRIES.items():
        for name in entries:
            rows = options(group, [name])
            assert [row[0] for row in rows] == [option for option in defaults(group, name) if option != "name"]
            assert all(meaning for *_, meaning in rows)
    (hidden,) = (row for row in options("model", ["lstm"]) if row[0] == "hidden")
    assert hidden == ("hidden", "200", "integer ≥ 1", "size of h_t, the units per layer.")


def test_defaults_that_differ_are_reported_by_entry():
    rows = {row[0]: row[1] for row in options("model", ["rnn", "lstm"])}
    assert rows["hidden"] == "200"
    assert rows["activation"] == "tanh (rnn)"


def test_layers_are_those_of_the_drawing():
    names = [name for row in order() for name in row]
    drawn = {name.strip("_") for name, *_ in NODE.findall((ROOT / "docs/architecture.md").read_text("utf-8"))}
    assert names[0] == "main"
    assert names[-1] == "core"
    assert drawn <= set(names)
    assert names.index("models") < names.index("lds") < names.index("protocol")


def test_links_and_modules_of_pages():
    assert beside_docs("[a](docs/b.md#c) [d](LICENSE) [e](https://x) [f](#g)") == (
        "[a](b.md#c) [d](../LICENSE) [e](https://x) [f](#g)"
    )
    assert ".. automodule:: lmzoo.api" in modules("lmzoo.api")
    assert "lmzoo.numerics.svd" in modules("lmzoo.numerics")


def test_names_of_torch_have_pages():
    with Path(inventory.written()).open("rb") as file:
        found = InventoryFile.load(file, inventory.TORCH, lambda base, page: base + page)
    assert found["py:class"]["torch.Tensor"].uri == f"{inventory.TORCH}tensors.html#torch.Tensor"
    assert found["py:class"]["torch.nn.modules.module.Module"].uri.endswith("#torch.nn.Module")


def test_every_page_is_in_the_index():
    listed = (ROOT / "docs/index.md").read_text("utf-8").split()
    assert {file.stem for file in (ROOT / "docs").glob("*.md")} - {"index"} <= set(listed)
