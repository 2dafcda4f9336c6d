"""A picture of runs: their perplexity as they learn, and by their size."""

import importlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.reports.comparison import Group, Row
from lmzoo.runs.kinds import LABELS


def picture(tables: Sequence[Group], file: Path) -> bytes:
    """Valid perplexity by epochs, by seconds and by parameters: a row of panels for each text, a colour for each row.

    A model that learns by counting alone is a point without epochs.

    Args:
        file: its ending is the format.

    Raises: UserError where matplotlib is missing, or does not know the format, and where no run has a perplexity, as
        runs of labels have none.
    """
    tables = [group for group in tables if group.kind is not LABELS]
    if not tables:
        raise UserError(f"--plot {file}: there are no finished runs of language models to draw", "leave it out")
    try:
        importlib.import_module("matplotlib").use("Agg")
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise UserError("--plot needs matplotlib, which is not installed", "pip install matplotlib") from None
    figure, panels = pyplot.subplots(
        len(tables), 3, figsize=(13, 4 * len(tables)), sharey="row", squeeze=False, layout="constrained"
    )
    for group, axes in zip(tables, panels, strict=True):
        for row in group.rows:
            _draw(row, _label(row, group), axes)
        axes[0].set(title=group.title, ylabel="valid perplexity", yscale="log")
        axes[2].set_xscale("symlog")
        for panel, what in zip(axes, ("epochs", "seconds", "parameters"), strict=True):
            panel.set_xlabel(what)
            panel.grid(alpha=0.3, which="both")
            panel.yaxis.set_major_formatter("{x:.0f}")
            panel.yaxis.set_minor_formatter("{x:.0f}")
        axes[2].legend(fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
    stream, form = io.BytesIO(), file.suffix.removeprefix(".") or "png"
    try:
        figure.savefig(stream, format=form, dpi=110)
    except ValueError:
        known = ", ".join(sorted(figure.canvas.get_supported_filetypes()))
        raise UserError(f"--plot {file}: .{form} is no format of a picture", f"there are: {known}") from None
    finally:
        pyplot.close(figure)
    return stream.getvalue()


def _draw(row: Row, label: str, axes: Any) -> None:
    """The curves and the size of the runs of a row, in one colour."""
    known = row.figures["parameters"] is not None
    size = ([row.figures["parameters"]], [row.figures["valid"]]) if known else ([], [])
    (point,) = axes[2].plot(*size, "o", label=label)
    for entry in row.entries:
        checks = entry.results.get("checks") or []
        for panel, unit in zip(axes, ("epoch", "seconds"), strict=False):
            curve = [check[unit] for check in checks], [check["valid"] for check in checks]
            panel.plot(*curve, marker=".", color=point.get_color())
        if not checks:
            axes[1].plot(entry.results["seconds"], row.figures["valid"], "o", color=point.get_color())


def _label(row: Row, group: Group) -> str:
    """What tells the row from others of its group."""
    options = row.entries[0].options
    told = [f"{name}={options[key]}" for key, name in group.options.items() if key in options and key != "model.name"]
    return ",".join([str(options["model.name"]), *told])[:60]
