"""Pictures of runs: perplexity by epoch, by training time, and by size."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError, printable
from lmzoo.reports.charts import charts, legend, logarithmic, rendered
from lmzoo.reports.comparison import Group
from lmzoo.runs.configuration import differing_options
from lmzoo.runs.kinds import LABELS

NAMED = 12
"""The number of best runs with a colour and a name in the legend; others are grey."""

GREY = "#b5b5b5"


@dataclass(frozen=True)
class PlottedRun:
    """The plotted data of a run, or of repetitions.

    Attributes:
        perplexity: the perplexity of the best weights.
        seconds, parameters: training time and size, if known.
        curves: (epoch, seconds, perplexity) at each validation of each run; empty without gradient descent.
    """

    name: str
    perplexity: float
    seconds: float | None
    parameters: float | None
    curves: Sequence[Sequence[tuple[float, float, float]]] = ()


def picture(tables: Sequence[Group], file: Path) -> bytes:
    """Draw valid perplexity by epoch, by training time and by parameters: a row of panels per text.

    A model that is not trained by gradient descent has no curve.

    Args:
        file: the output; its suffix determines the format.

    Raises: UserError if no run has a perplexity, as is the case for labels.
    """
    drawn = {group.title: _drawn(group) for group in tables if group.kind is not LABELS}
    drawn = {title: runs for title, runs in drawn.items() if runs}
    if not drawn:
        raise UserError(f"--plot {file}: there are no finished runs of language models to plot", "leave it out")
    with charts("--plot") as pyplot:
        figure, panels = pyplot.subplots(
            len(drawn), 3, figsize=(11, 3.4 * len(drawn)), squeeze=False, sharey="row", width_ratios=(1, 1.2, 1.2)
        )
        for (title, runs), (learning, cost, size) in zip(drawn.items(), panels, strict=True):
            colours = _colours(pyplot, runs)
            ends = [run.perplexity for run in runs]
            checks = [check[2] for run in runs for curve in run.curves for check in curve]  # the first may be high
            limits = min(ends) / 1.06, min(max([*ends, *checks]) * 1.06, max(ends) * 1.7)
            learning.set_title(printable(title), parse_math=False)
            learning.set(ylabel="valid perplexity", ylim=limits)
            plot_by_epoch(learning, runs, colours)
            logarithmic(learning, "y")
            lines = [line for line in learning.lines[::-1] if not line.get_label().startswith("_")]
            legend(size, *lines, loc="upper left", bbox_to_anchor=(1.02, 1))
            plot_by_cost(cost, runs, colours, "seconds of training", lambda run: run.seconds)
            plot_by_cost(size, runs, colours, "parameters", lambda run: run.parameters)
        return rendered(figure, file)


def plot_by_epoch(panel: Any, runs: Sequence[PlottedRun], colours: Sequence[Any]) -> None:
    """Plot the perplexity of runs by epoch, with a horizontal line for each without gradient descent."""
    last = max((check[0] for run in runs for curve in run.curves for check in curve), default=1)
    for run, colour in reversed(list(zip(runs, colours, strict=True))):
        for curve in run.curves:
            epochs, _, perplexities = zip(*curve, strict=True)
            panel.plot(epochs, perplexities, color=colour, marker="." if len(curve) < 40 else "")
        if not run.curves:
            panel.axhline(run.perplexity, color=colour, linestyle=(0, (4, 2)), linewidth=1)
        if colour != GREY:
            panel.lines[-1].set_label(run.name)
    panel.set(xlabel="epochs; dashed: no gradient descent", xlim=(0, last * 1.03))
    panel.xaxis.get_major_locator().set_params(integer=True)


def plot_by_cost(
    panel: Any,
    runs: Sequence[PlottedRun],
    colours: Sequence[Any],
    what: str,
    value: Callable[[PlottedRun], float | None],
) -> None:
    """Plot the perplexity of runs by cost, with a line along the best at each cost."""
    known = [(cost, run, colour) for run, colour in zip(runs, colours, strict=True) if (cost := value(run))]
    panel.set_xlabel(what)
    if not known:
        return
    steps, best = [], math.inf
    for cost, run, _ in sorted(known, key=lambda entry: (entry[0], entry[1].perplexity)):
        if run.perplexity < best:
            steps += [(cost, best)] * (best < math.inf) + [(cost, run.perplexity)]
            best = run.perplexity
    panel.plot(*zip(*steps, strict=True), color=GREY, linewidth=0.8, zorder=1)
    for cost, run, colour in reversed(known):
        panel.plot(cost, run.perplexity, "o", color=colour)
    panel.margins(x=0.12)
    logarithmic(panel, "x")


def _drawn(group: Group) -> list[PlottedRun]:
    """The rows of a group with a perplexity, the best first, named by model and options that differ among its rows."""
    learner, options = f"{group.kind.learner}.name", [row.entries[0].options for row in group.rows]
    differing = differing_options(options, learner, group.options)
    names = [f"{own[learner]} {more}".strip() for own, more in zip(options, differing, strict=True)]
    return [
        PlottedRun(
            name, row.figures["valid"], row.figures["seconds"], row.figures["parameters"],
            [[(check["epoch"], check["seconds"], check["valid"]) for check in checks]
             for entry in row.entries if (checks := entry.results.get("checks"))],
        )
        for name, row in zip(names, group.rows, strict=True)
        if row.figures["valid"] is not None and math.isfinite(row.figures["valid"])
    ]  # fmt: skip


def _colours(pyplot: Any, runs: Sequence[PlottedRun]) -> list[Any]:
    cycle = [*pyplot.rcParams["axes.prop_cycle"].by_key()["color"], *pyplot.get_cmap("tab20b").colors]
    return [cycle[number] if number < NAMED else GREY for number in range(len(runs))]
