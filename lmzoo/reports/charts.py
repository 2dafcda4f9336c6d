"""The common base of all charts: style, ticks, legends."""

import importlib
import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from lmzoo.core.errors import UserError, printable
from lmzoo.core.extras import import_optional

STYLE = Path(__file__).with_name("paper.mplstyle")


@contextmanager
def charts(what: str, changes: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """Matplotlib's pyplot in the style of all charts; figures are closed at the end.

    Args:
        what: what needs Matplotlib, for the message.
        changes: changes of the style, by Matplotlib's names.

    Raises: UserError if Matplotlib is missing.
    """
    import_optional("matplotlib", what, "matplotlib").use("agg")
    pyplot = importlib.import_module("matplotlib.pyplot")
    with pyplot.style.context([str(STYLE), dict(changes or {})]):
        before = set(pyplot.get_fignums())
        try:
            yield pyplot
        finally:
            for number in set(pyplot.get_fignums()) - before:
                pyplot.close(number)


def picture_format(file: Path) -> str:
    """The image format of a file suffix, PNG without one.

    Raises: UserError if Matplotlib does not support it, or is missing.
    """
    form = file.suffix.removeprefix(".").lower() or "png"
    import_optional("matplotlib", str(file), "matplotlib")
    known = sorted(importlib.import_module("matplotlib.backend_bases").FigureCanvasBase.get_supported_filetypes())
    if form not in known:
        raise UserError(f"--plot {file}: .{form} is not a supported image format", f"choose from: {', '.join(known)}")
    return form


def rendered(figure: Any, file: Path, about: str | None = None) -> bytes:
    """Render a figure in its `picture_format`; the bytes are reproducible.

    Args:
        about: the description in an SVG.
    """
    stream, form = io.BytesIO(), picture_format(file)
    metadata = {"svg": {"Date": None, "Description": about}, "pdf": {"CreationDate": None}}.get(form)
    figure.savefig(stream, format=form, metadata=metadata)
    return stream.getvalue()


def legend(axes: Any, *handles: Any, **options: Any) -> None:
    """Add a legend with lines wrapped at 36 characters, and dollar signs not taken for formulas.

    Args:
        handles: the artists to list, in order; if empty, all with a label.
        options: arguments of Matplotlib.
    """
    for text in axes.legend(**({"handles": handles} if handles else {}), **options).get_texts():
        text.set(text=textwrap.fill(printable(text.get_text()), 36, break_on_hyphens=False), parse_math=False)


def format_tick(value: float) -> str:
    """Format a number for a tick: 0.05, 80, 2,000, 50k, 3M."""
    for least, size, suffix in ((1e9, 1e9, "bn"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= least:
            return f"{value / size:g}{suffix}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def logarithmic(axes: Any, which: str) -> None:
    """Make the x or y axis logarithmic, with a number at each tick.

    Call it after drawing, as the ticks depend on the limits.
    """
    ticker = importlib.import_module("matplotlib.ticker")
    axis = getattr(axes, f"{which}axis")
    getattr(axes, f"set_{which}scale")("log")
    low, high = sorted(axis.get_view_interval())
    fine = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    steps = fine if high < 4 * low else (1, 1.5, 2, 3, 5, 7) if high < 10 * low else (1, 2, 5)
    of_log = ticker.LogLocator(subs=steps if high < 100 * low else (1,))
    axis.set_major_locator(ticker.AutoLocator() if high < 1.5 * low else of_log)
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: format_tick(value)))
    axis.set_minor_locator(ticker.NullLocator())


def heat_map(axes: Any, matrix: np.ndarray, names: Sequence[str], colours: str, most: float, **bar: Any) -> Any:
    """Draw an (n, n) matrix with names of rows and columns, in colours up to ``most``. Returns: the colour bar."""
    norm = importlib.import_module("matplotlib.colors").PowerNorm(0.5, 0, most)
    image = axes.imshow(matrix, cmap=colours, norm=norm)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(range(len(names)), names, parse_math=False)
    axes.tick_params("x", rotation=90)
    axes.tick_params(length=0)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    drawn = axes.figure.colorbar(image, ax=axes, shrink=0.8, **bar)
    drawn.outline.set_visible(False)
    return drawn
