"""Tables as text and CSV."""

import csv
import io
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from lmzoo.core.files import text_ending


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Format rows as lines with aligned columns; those in ``left`` are left-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [str.ljust if place in left else str.rjust for place in range(len(widths))]
    cells = ([side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)] for row in rows)
    return ["  ".join(row).rstrip() for row in cells]


def csv_bytes(rows: Iterable[Iterable[Any]]) -> bytes:
    """Format rows as CSV in UTF-8."""
    return _lines(rows, ",").encode("utf-8", "surrogatepass")


def tab_lines(rows: Iterable[Iterable[Any]]) -> str:
    """Format rows with tabs between cells; a cell with " is quoted, since R and pandas would lose the rest."""
    return _lines(rows, "\t")


def cell(value: Any) -> str:
    """Format a value for R and pandas: up to four decimals, NA for NaN and None, true or false."""
    if value is None or value != value:
        return "NA"
    if isinstance(value, float):
        return f"{value:.4f}".rstrip("0").rstrip(".")
    return str(value).lower() if str(value) in ("True", "False") and not isinstance(value, str) else str(value)


def table_bytes(rows: Iterable[Iterable[Any]], file: Path) -> bytes:
    """Format rows for a file in UTF-8: as CSV if its name ends in .csv, otherwise with tabs."""
    return csv_bytes(rows) if text_ending(file) == ".csv" else tab_lines(rows).encode("utf-8", "surrogatepass")


def _lines(rows: Iterable[Iterable[Any]], between: str) -> str:
    stream = io.StringIO()
    csv.writer(stream, delimiter=between, lineterminator="\n").writerows(rows)
    return stream.getvalue()
