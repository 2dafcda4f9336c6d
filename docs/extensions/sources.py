"""Pages as the site has them.

Some are files beside ``docs``. Links to folders of evidence lead to the page that tells it, links to modules to their
docstrings. A link to a file of figures, alone in its line, is their table; to a script, its lines, folded; to what a
command printed, its text. ``{modules} PACKAGE`` stands for all modules in a package.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"index": "README.md", "changes": "CHANGELOG.md"}
"""The files that are the beginnings of pages."""

EVIDENCE = re.compile(r"\]\(((?:results|labels|history)/[\w./-]+)\)")
TABLE = re.compile(r"^\[([^]]+)\]\((benchmarks/[\w/]+\.csv)\)$", re.MULTILINE)
CODE = re.compile(r"^\[([^]]+)\]\((benchmarks/[\w/]+\.(sh|txt))\)$", re.MULTILINE)
NO_PAGE = re.compile(r"\[([^]]+)\]\(\.\./[A-Z_]+\.md\)")
"""A link to a file of the folder above that is no page of the site."""
MODULE = re.compile(r"\]\(\.\./(lmzoo/[\w/]+)\.py\)")
MODULES = re.compile(r"^```\{modules\} ([\w.]+)\n```$", re.MULTILINE)


def beside_docs(text: str) -> str:
    """A file of the folder above with links and pictures as from ``docs``."""
    text = re.sub(r"\]\((?!\w+:|#|docs/)([^)]+)\)", r"](../\1)", text)
    return text.replace("](docs/", "](").replace('"docs/pictures/', '"_static/')


def modules(package: str) -> str:
    """The docstrings of the modules right in a package, or of one module."""
    place = ROOT.joinpath(*package.split("."))
    files = sorted(file for file in place.glob("*.py") if file.stem != "__init__")
    names = [f"{package}.{file.stem}" for file in files] or [package]
    parts = [
        f"## {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n   :members:\n   :show-inheritance:\n```\n"
        for name in names
    ]
    return "\n".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""

    def read_table(link: re.Match[str]) -> str:
        file = ROOT / "docs" / link[2]
        app.env.note_dependency(file)
        headings = re.findall(r"^#+ (.*)$", link.string[: link.start()], re.MULTILINE)
        title = "" if link[1] in headings[-1:] else link[1]
        return f"```{{csv-table}} {title}\n:header-rows: 1\n\n{file.read_text('utf-8')}```"

    def read_code(link: re.Match[str]) -> str:
        file = ROOT / "docs" / link[2]
        app.env.note_dependency(file)
        block = f"```{'sh' if link[3] == 'sh' else 'text'}\n{file.read_text('utf-8')}```"
        return block if link[3] == "txt" else f"<details><summary>{link[1]}</summary>\n\n{block}\n\n</details>"

    def read(app: Sphinx, page: str, source: list[str]) -> None:
        text = source[0]
        if page in ELSEWHERE:
            file = ROOT / ELSEWHERE[page]
            app.env.note_dependency(file)
            text = f"{beside_docs(file.read_text('utf-8'))}\n{text}"
        text = NO_PAGE.sub(r"\1", text)
        text = re.sub(r"\]\((?:results|labels|history)\)", "](evidence.md)", text)
        text = TABLE.sub(read_table, text)
        text = CODE.sub(read_code, text)
        text = EVIDENCE.sub(lambda link: f"](#{link[1].replace('/', '-')})", text)
        text = MODULE.sub(lambda link: f"](#{link[1].replace('/', '.')})", text)
        source[0] = MODULES.sub(lambda found: modules(found[1]), text)

    app.connect("source-read", read)
    return {"parallel_read_safe": True}
