"""The notebooks of the site run, use the public API alone, and are stored without outputs."""

import ast
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT

import lmzoo

NOTEBOOKS = {
    file.stem: json.loads(file.read_text("utf-8")) for file in sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
}
SHELL = re.compile(r"^!lmzoo (.*)$", re.MULTILINE)


def cells(name: str, kind: str = "code") -> list[str]:
    return ["".join(cell["source"]) for cell in NOTEBOOKS[name]["cells"] if cell["cell_type"] == kind]


def command(line: str) -> None:
    """What a line ``!lmzoo …`` does."""
    subprocess.run([sys.executable, "-m", "lmzoo", *shlex.split(line)], check=True)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_uses_the_public_api_alone(name: str):
    for cell in cells(name):
        for node in ast.walk(ast.parse(SHELL.sub("", cell))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lmzoo"):
                assert (node.module, [alias.name for alias in node.names]) == ("lmzoo.corpus", ["load_corpus"])
            elif isinstance(node, ast.Import):
                assert not [alias.name for alias in node.names if alias.name.startswith("lmzoo.")]
            elif isinstance(node, ast.Attribute):
                assert not node.attr.startswith("_") or node.attr == "__file__"
                if isinstance(node.value, ast.Name) and node.value.id == "lmzoo" and node.attr != "__file__":
                    assert node.attr in lmzoo.__all__


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_site_executes_what_is_stored_without_outputs(name: str):
    code = [cell for cell in NOTEBOOKS[name]["cells"] if cell["cell_type"] == "code"]
    assert not [cell for cell in code if cell["outputs"] or cell["execution_count"] is not None]
    assert name in (ROOT / "docs/index.md").read_text("utf-8")


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_links_of_the_notebook_lead_somewhere(name: str):
    links = re.findall(r"\]\(((?!http)[^)#]+)", "\n".join(cells(name, "markdown")))
    assert links
    assert not [link for link in links if not (ROOT / "docs/notebooks" / link).exists()]


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_runs(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    matplotlib, pyplot = pytest.importorskip("matplotlib"), pytest.importorskip("matplotlib.pyplot")
    matplotlib.use("agg")
    shown: list[int] = []

    def show() -> None:
        shown.extend(pyplot.get_fignums())
        pyplot.close("all")

    monkeypatch.setattr(pyplot, "show", show)
    names: dict[str, Any] = {"command": command}
    with matplotlib.rc_context():
        for cell in cells(name):
            exec(compile(SHELL.sub(r"command('\1')", cell), f"{name}.ipynb", "exec"), names)
    assert len(shown) in (2, 3, 4)
