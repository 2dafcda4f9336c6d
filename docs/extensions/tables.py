"""A table of docutils from its cells."""

from collections.abc import Sequence

from docutils import nodes


def table(headers: Sequence[str], rows: Sequence[Sequence[Sequence[nodes.Node]]], kind: str) -> nodes.table:
    """A table with a line of headers.

    Args:
        rows: of each cell what stands in it.
        kind: its class, for the style sheet.
    """
    made = nodes.table(classes=[kind])
    group = nodes.tgroup(cols=len(headers))
    group += [nodes.colspec(colwidth=1) for _ in headers]
    group += nodes.thead("", _row([[nodes.Text(header)] for header in headers]))
    group += nodes.tbody("", *map(_row, rows))
    made += group
    return made


def _row(cells: Sequence[Sequence[nodes.Node]]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells))
