"""The drawing of the layers in architecture.md, which is Mermaid, as a list from top to bottom: no script is needed."""

import re
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
NODE = re.compile(r'^ *(?:subgraph )?(\w+)\["<b>(.*?)</b>:?(.*?)"\]$', re.MULTILINE)


def order() -> list[list[str]]:
    """Layers in the order of the contract, which side by side; each family after ``models``."""
    contracts = tomllib.loads(PROJECT.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    whole, families = (
        [[name.strip(" _") for name in layer.split("|")] for layer in contract["layers"]] for contract in contracts
    )
    place = whole.index(["models"]) + 1
    return [*whole[:place], *families, *whole[place:]]


class Layers(SphinxDirective):
    """The boxes of a Mermaid flowchart, in the order of the contract on imports."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content).replace("&#95;", "_").replace("<br/>", " ")
        boxes = {name.strip("_"): (title, said.strip(" :")) for name, title, said in NODE.findall(text)}
        rows = nodes.bullet_list(classes=["layers"])
        for layer in order():
            row = nodes.list_item()
            for name in layer:
                title, said = boxes.pop(name, (name, ""))
                row += nodes.paragraph("", "", nodes.strong("", title), nodes.Text(f" {said}"))
            rows += row
        if boxes:
            raise self.error(f"the contract of pyproject.toml has no layer {', '.join(boxes)}")
        return [rows]


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("mermaid", Layers)
    return {"parallel_read_safe": True}
