"""Docstrings as Sphinx reads them. They are written for people who read code: equations are indented, and signs such as
``*`` and ``|`` are mathematics."""

import re

from sphinx.application import Sphinx

SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises):(.*)")


def restructured(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText, with sections as napoleon reads them."""
    made: list[str] = []
    state = "text"  # or what an indented line goes on with: a section, a list, a sentence, a literal block
    for line in lines:
        indented = line.startswith("    ")
        if not line.strip():
            made.append("")
            state = "text" if state == "sentence" else state
        elif found := SECTION.fullmatch(line):
            name, sentence = found.groups()
            name = "Args" if name == "Attributes" else name  # napoleon would describe them a second time
            made += ["", f"*{name}:* {escaped(sentence.strip())}" if sentence else f"{name}:"]
            state = "sentence" if sentence else "section"
        elif indented and state == "sentence":
            made.append(escaped(line.strip()))
        elif line.startswith("  - ") or (indented and state == "list"):
            made += [""] * (state != "list") + [escaped(line[2:])]
            state = "list"
        elif indented and state != "section":
            opened = state == "literal" or next(filter(None, reversed(made)), "").endswith("::")
            made += [line] if opened else ["", "::", "", line]
            state = "literal"
        elif line.startswith("|"):
            made += _row(line, first=state != "table")
            state = "table"
        else:
            state = "section" if state == "section" and indented else "text"
            starts = line.startswith("- ") or (made and made[-1].startswith("    ") and state == "text")
            made += [""] * bool(starts) + [escaped(line)]
    return made


def _row(line: str, first: bool) -> list[str]:
    """A row of a table; the line below the headers is none."""
    if set(line) <= set("|- "):
        return []
    cells = [escaped(cell.strip()) for cell in line.strip().strip("|").split("|")]
    start = ["", ".. list-table::", "   :header-rows: 1", ""] if first else []
    return start + [f"   {'  -' if place else '* -'} {cell}" for place, cell in enumerate(cells)]


def escaped(text: str) -> str:
    """A line in which all signs stand for themselves, but those of code, emphasis and links."""
    parts = re.split(r"(``.+?``|`[^`]+`|https?://\S+)", text)
    return "".join(part if place % 2 else _signs(part) for place, part in enumerate(parts))


def _signs(text: str) -> str:
    text = re.sub(r"\\", r"\\\\", text)
    text = re.sub(r"(?<![\w*])\*(?=[^\s*][^*]*[^\s*]\*(?![\w*]))([^*]+)\*", "\0\\1\0", text)
    return re.sub(r"_(?!\w)|[*|`]", r"\\\g<0>", text).replace("\0", "*")


def setup(app: Sphinx) -> dict[str, bool]:
    """What Sphinx calls."""

    def change(app: Sphinx, what: str, name: str, entry: object, options: object, lines: list[str]) -> None:
        lines[:] = restructured(lines)
        whole[name] = [*lines]

    def restore(app: Sphinx, what: str, name: str, entry: object, options: object, lines: list[str]) -> None:
        if what == "attribute":  # of which napoleon takes what comes before a colon for a type
            lines[:] = whole[name]

    whole: dict[str, list[str]] = {}
    app.connect("autodoc-process-docstring", change, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", restore, priority=600)
    return {"parallel_read_safe": True}
