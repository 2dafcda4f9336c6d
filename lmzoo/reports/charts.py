"""What all charts share: one style, ticks that can be read, names beside points."""

import importlib
import io
import itertools
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lmzoo.core.errors import UserError, printable
from lmzoo.core.extras import import_optional

STYLE = Path(__file__).with_name("paper.mplstyle")

TIMES = {
    0.001: "1 ms", 0.01: "10 ms", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h",
    36_000: "10 h", 360_000: "100 h",
}  # fmt: skip
"""Ticks of an axis of seconds."""

Point = tuple[float, float]


@contextmanager
def charts(what: str, changes: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """Matplotlib's pyplot in the style of all charts; the figures drawn are closed at the end.

    Args:
        what: needs it, for the message.
        changes: of the style, by Matplotlib's names.

    Raises: UserError where Matplotlib is missing.
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
    """The format that the ending of a file names, PNG where it has none.

    Raises: UserError for one that Matplotlib does not know, and where Matplotlib is missing.
    """
    form = file.suffix.removeprefix(".").lower() or "png"
    import_optional("matplotlib", str(file), "matplotlib")
    known = sorted(importlib.import_module("matplotlib.backend_bases").FigureCanvasBase.get_supported_filetypes())
    if form not in known:
        raise UserError(f"--plot {file}: .{form} is no format of a picture", f"there are: {', '.join(known)}")
    return form


def rendered(figure: Any, file: Path, about: str | None = None) -> bytes:
    """The picture in its `picture_format`; the same bytes each time.

    Args:
        about: what an SVG says of itself.
    """
    stream, form = io.BytesIO(), picture_format(file)
    metadata = {"svg": {"Date": None, "Description": about}, "pdf": {"CreationDate": None}}.get(form)
    figure.savefig(stream, format=form, metadata=metadata)
    return stream.getvalue()


def as_written(legend: Any) -> None:
    """Show the names of a legend as they are, dollars too, between which Matplotlib expects formulas."""
    for text in legend.get_texts():
        text.set_parse_math(False)


def format_tick(value: float) -> str:
    """A number beside a tick: 0.05, 80, 2,000, 50k, 3M."""
    for least, size, sign in ((1e9, 1e9, "bn"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if value >= least:
            return f"{value / size:g}{sign}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def logarithmic(axes: Any, which: str, most: int = 7, times: bool = False) -> None:
    """Make the axis x or y logarithmic, with at most ``most`` ticks, each with its number.

    Call it when all is drawn: the ticks are those of the limits.

    Args:
        times: whether the axis is of seconds, and its ticks at 1 s, 1 min, 1 h and between.
    """
    ticker = importlib.import_module("matplotlib.ticker")
    axis = getattr(axes, f"{which}axis")
    getattr(axes, f"set_{which}scale")("log")
    low, high = sorted(axis.get_view_interval())
    ticks = {tick: format_tick(tick) for tick in round_numbers(low, high, most)}
    if times and len(between := {tick: name for tick, name in TIMES.items() if low <= tick <= high}) > 1:
        ticks = between
    axis.set_major_locator(ticker.FixedLocator(list(ticks)))
    axis.set_major_formatter(ticker.FixedFormatter(list(ticks.values())))
    axis.set_minor_locator(ticker.NullLocator())


def round_numbers(low: float, high: float, most: int) -> list[float]:
    """Round numbers from low to high, low above 0, that are about even on a logarithmic scale: up to ``most``."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    choices = [
        [float(f"{step}e{power}") for power in range(first, last + 1, every) for step in steps]
        for every, steps in [
            *((every, (1,)) for every in range(last - first + 1, 0, -1)),
            (1, (1, 3)), (1, (1, 2, 5)), (1, (1, 1.5, 2, 3, 5, 7)), (1, (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)),
        ]
    ]  # fmt: skip
    if high < 2.5 * low:
        for step in (float(f"{digit}e{power}") for power in range(last, first - 3, -1) for digit in (5, 2, 1)):
            choices.append([round(step * n, 12) for n in range(math.ceil(low / step), math.floor(high / step) + 1)])
    within = [[tick for tick in ticks if low <= tick <= high] for ticks in choices]
    return max((ticks for ticks in within if len(ticks) <= most), key=len)


def heat_map(axes: Any, matrix: np.ndarray, names: Sequence[str], colours: str, most: float, **bar: Any) -> Any:
    """Draw an (n, n) matrix whose rows and columns have names, in colours up to ``most``; returns the bar of these."""
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


CONTRAST = 4.5
"""Of a name with what is behind it, at least (WCAG 2.2, 1.4.3)."""


def legible(colour: Any, ground: Any) -> tuple[float, float, float]:
    """The colour, darker or lighter by as much as letters of it need to be read on a ground: see `CONTRAST`."""
    rgb = importlib.import_module("matplotlib.colors").to_rgb
    own, behind = np.array(rgb(colour)), rgb(ground)
    end = max(np.zeros(3), np.ones(3), key=lambda end: contrast(tuple(end), behind))
    shades = (tuple((own + share * (end - own)).tolist()) for share in np.linspace(0, 1, 101))
    return next(shade for shade in shades if contrast(shade, behind) >= CONTRAST)


def contrast(colour: Sequence[float], other: Sequence[float]) -> float:
    """The contrast ratio of two sRGB colours, each of parts from 0 to 1: from 1 to 21 (WCAG 2.2, definition)."""
    linear = np.array([colour, other])
    linear = np.where(linear <= 0.04045, linear / 12.92, ((linear + 0.055) / 1.055) ** 2.4)
    low, high = sorted((linear @ [0.2126, 0.7152, 0.0722]).tolist())
    return (high + 0.05) / (low + 0.05)


@dataclass(frozen=True)
class Name:
    """A name that stands beside a point of a chart, or beside one of several.

    Attributes:
        points: any of which it may stand at, best at the first, in the coordinates of the data.
    """

    text: str
    points: Sequence[Point]
    colour: Any = "black"
    size: float | None = None


GAPS = (3, 6, 11, 18, 27, 38, 52, 70, 92)
"""How far from its point a name may stand, in points of 1/72 inch."""

LEADER = 8
"""A name that stands further away has a line to its point."""

TURNS, MOST = 24, 60
"""In how many directions a name may stand from its point, and how many of its places are tried with those of others."""


WIDTH, LINES = 32, 6
"""How many letters a line of a name has, and how many lines a name."""


def place(axes: Any, names: Sequence[Name], lines: Sequence[tuple[Point, Point]] = (), margin: float = 3) -> None:
    """Write names beside their points, near them, and over no other name, point, line or legend where there is room.

    Of the places around each point, from near to far, the whole of the names takes those that disturb least: the best
    of a local search from many starts. Call it when all else is drawn, since the axes may not change afterwards.

    Args:
        lines: pairs of points between which there is a line.
        margin: half the width of a point, in points of 1/72 inch.
    """
    if not names:
        return
    figure = axes.figure
    figure.draw_without_rendering()
    renderer, scale = figure.canvas.get_renderer(), figure.dpi / 72
    to_pixels = axes.transData.transform
    written = [*axes.texts, *axes.artists, *([axes.get_legend()] if axes.get_legend() else [])]
    inks = [legible(name.colour, axes.get_facecolor()) for name in names]
    texts = [
        axes.annotate(
            textwrap.fill(printable(name.text), WIDTH, max_lines=LINES, placeholder=" …", break_on_hyphens=False),
            name.points[0], (0, 0), textcoords="offset points", color=ink,
            fontsize=name.size, parse_math=False, annotation_clip=False, ha="left", va="bottom", in_layout=False,
        )
        for name, ink in zip(names, inks, strict=True)
    ]  # fmt: skip
    points = to_pixels([point for name in names for point in name.points])
    obstacles = np.concatenate([
        np.concatenate([points - margin * scale, points + margin * scale], 1),
        *[_along(to_pixels(start), to_pixels(end), 1.5 * scale) for start, end in lines],
        *[np.array(artist.get_window_extent(renderer).extents)[None] for artist in written],
    ])  # fmt: skip
    frame = np.array(axes.get_window_extent().extents)
    choices = []
    for name, text in zip(names, texts, strict=True):
        extent = text.get_window_extent(renderer)
        found = [
            place
            for number, point in enumerate(to_pixels(list(name.points)))
            for place in _places(number, point, np.array([extent.width, extent.height]), scale, obstacles, frame)
        ]
        choices.append(sorted(found, key=lambda place: place.cost)[:MOST])
    for name, text, place in zip(names, texts, _settled(choices, scale), strict=True):
        start = to_pixels(name.points[place.point])
        text.xy = name.points[place.point]
        text.set_position(tuple((place.box[:2] - start) / scale))
        if len(place.leader):
            end = np.clip(start, place.box[:2], place.box[2:])
            start = start + (end - start) / np.hypot(*(end - start)) * margin * scale
            ends = axes.transData.inverted().transform([start, end])
            axes.plot(*ends.T, color=name.colour, linewidth=0.5, alpha=0.7, zorder=1.5, clip_on=False)


@dataclass(frozen=True)
class _Place:
    """A place that a name may take, in pixels.

    Attributes:
        point: the number of the point that it is beside.
        box: left, bottom, right, top.
        leader: (L, 4) small boxes along the line to the point; none where it is near.
        cost: how bad it is by itself.
    """

    point: int
    box: np.ndarray
    leader: np.ndarray
    cost: float


def _places(
    number: int, point: np.ndarray, size: np.ndarray, scale: float, obstacles: np.ndarray, frame: np.ndarray
) -> Iterator[_Place]:
    for gap in GAPS:
        for turn in range(TURNS):
            angle = 2 * math.pi * turn / TURNS
            towards = np.array([math.cos(angle), math.sin(angle)]).round(6)
            centre = point + towards * (gap + 3) * scale + size / 2 * np.clip(1.5 * towards, -1, 1)
            box = np.concatenate([centre - size / 2, centre + size / 2])
            leader = _along(point, np.clip(point, box[:2], box[2:]), scale)[2:] if gap > LEADER else np.empty((0, 4))
            outside = float(np.maximum(frame[:2] - box[:2], 0).sum() + np.maximum(box[2:] - frame[2:], 0).sum())
            over = _overlaps(box[None], obstacles).sum() / scale**2
            crossed = (_overlaps(leader, obstacles) > 0).any(1).sum()
            cost = 0.3 * gap + 3 * (number > 0) - 0.5 * (turn == 0) + 4 * over + 2 * crossed + 100 * outside
            yield _Place(number, box, leader, float(cost))


def _settled(choices: Sequence[Sequence[_Place]], scale: float, starts: int = 200) -> list[_Place]:
    """The places that the names take."""
    places = [place for options in choices for place in options]
    boxes = np.stack([place.box for place in places])
    costs = np.array([place.cost for place in places])
    apart = 4 * _overlaps(boxes, boxes) / scale**2
    for row, place in enumerate(places):
        if len(place.leader):
            crossed = 2.0 * (_overlaps(place.leader, boxes) > 0).sum(0)
            apart[row] += crossed
            apart[:, row] += crossed
    ends = np.cumsum([0, *(len(options) for options in choices)])
    random = np.random.default_rng(0)
    best, lowest = np.array([low + costs[low:high].argmin() for low, high in itertools.pairwise(ends)]), math.inf
    for start in range(starts):
        chosen = best.copy()
        for name in random.choice(len(choices), min(3, len(choices)), replace=False) if start else ():
            chosen[name] = random.integers(ends[name], ends[name + 1])
        for _ in range(10):
            before = chosen.copy()
            for name in random.permutation(len(choices)):
                others = np.delete(chosen, name)
                own = slice(ends[name], ends[name + 1])
                chosen[name] = ends[name] + (costs[own] + apart[own][:, others].sum(1)).argmin()
            if (chosen == before).all():
                break
        together = apart[np.ix_(chosen, chosen)]
        cost = costs[chosen].sum() + (together.sum() - together.trace()) / 2
        if cost < lowest - 1e-9:
            best, lowest = chosen, cost
    return [places[index] for index in best]


def _along(start: np.ndarray, end: np.ndarray, width: float) -> np.ndarray:
    """Two places -> (L, 4) boxes along the line between them."""
    steps = np.linspace(0, 1, max(2, int(np.hypot(*(end - start)) / (2 * width)) + 1))[:, None]
    centres = start + steps * (end - start)
    return np.concatenate([centres - width, centres + width], 1)


def _overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """(M, 4) and (N, 4) boxes -> (M, N) shared areas."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    return np.maximum(high - low, 0).prod(2)
