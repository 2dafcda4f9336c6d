"""A picture of runs: their perplexity as they learn, by the time they took, and by their size."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmzoo.core.errors import UserError, printable
from lmzoo.reports.charts import charts, legend, logarithmic, rendered
from lmzoo.reports.comparison import Group, Row
from lmzoo.runs.kinds import LABELS

NAMED = 12
"""How many of the best runs have a colour and a name in the legend; the others are grey."""

TIME = "time of training"
"""The axis of seconds."""

GREY = "#b5b5b5"


@dataclass(frozen=True)
class Drawn:
    """What is drawn of a run, or of runs that differ in their seed alone.

    Attributes:
        perplexity: of its best weights.
        seconds: of training, and ``parameters``, where they are known.
        curves: of each run (epoch, seconds, perplexity) at each check; empty for a model that takes no steps.
    """

    name: str
    perplexity: float
    seconds: float | None
    parameters: float | None
    curves: Sequence[Sequence[tuple[float, float, float]]] = ()


def picture(tables: Sequence[Group], file: Path) -> bytes:
    """Valid perplexity as runs learn, by seconds of training and by parameters: a row of panels for each text.

    A model that takes no steps has no curve.

    Args:
        file: its ending is the format.

    Raises: UserError where no run has a perplexity, as runs of labels have none.
    """
    drawn = {group.title: _drawn(group) for group in tables if group.kind is not LABELS}
    drawn = {title: runs for title, runs in drawn.items() if runs}
    if not drawn:
        raise UserError(f"--plot {file}: there are no finished runs of language models to draw", "leave it out")
    with charts("--plot") as pyplot:
        figure, panels = pyplot.subplots(
            len(drawn), 3, figsize=(11, 3.4 * len(drawn)), squeeze=False, sharey="row", width_ratios=(1, 1.2, 1.2)
        )
        for (title, runs), (learning, cost, size) in zip(drawn.items(), panels, strict=True):
            colours = _colours(pyplot, runs)
            limits = _limits(runs)
            learning.set_title(printable(title), parse_math=False)
            learning.set(ylabel="valid perplexity", ylim=limits)
            as_learnt(learning, runs, colours)
            logarithmic(learning, "y")
            named = [line for line in learning.lines[::-1] if not line.get_label().startswith("_")]
            legend(size, *named, loc="upper left", bbox_to_anchor=(1.02, 1))
            against(cost, runs, colours, TIME, lambda run: run.seconds)
            against(size, runs, colours, "parameters", lambda run: run.parameters)
        return rendered(figure, file)


def as_learnt(panel: Any, runs: Sequence[Drawn], colours: Sequence[Any]) -> None:
    """The perplexity of runs by epochs, and a line across for each that takes no steps."""
    last = max((check[0] for run in runs for curve in run.curves for check in curve), default=1)
    for run, colour in reversed(list(zip(runs, colours, strict=True))):
        for curve in run.curves:
            epochs, _, perplexities = zip(*curve, strict=True)
            panel.plot(epochs, perplexities, color=colour, marker="." if len(curve) < 40 else "")
        if not run.curves:
            panel.axhline(run.perplexity, color=colour, linestyle=(0, (4, 2)), linewidth=1)
        if colour != GREY:
            panel.lines[-1].set_label(run.name)
    panel.set(xlabel="epochs; dashed: no steps are taken", xlim=(0, last * 1.03))
    panel.xaxis.get_major_locator().set_params(integer=True)


def against(
    panel: Any, runs: Sequence[Drawn], colours: Sequence[Any], what: str, value: Callable[[Drawn], float | None]
) -> None:
    """The perplexity of runs by what they cost, and a line along the best for each cost."""
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
    logarithmic(panel, "x", times=what == TIME)


def _drawn(group: Group) -> list[Drawn]:
    """The rows of a group that have a perplexity, the best first."""
    names = _names(group)
    return [
        Drawn(
            name, row.figures["valid"], row.figures["seconds"], row.figures["parameters"],
            [[(check["epoch"], check["seconds"], check["valid"]) for check in checks]
             for entry in row.entries if (checks := entry.results.get("checks"))],
        )
        for name, row in zip(names, group.rows, strict=True)
        if row.figures["valid"] is not None and math.isfinite(row.figures["valid"])
    ]  # fmt: skip


def _names(group: Group) -> list[str]:
    """What tells each row from the others of its model: the options that differ among them."""
    values: dict[tuple[str, str], set[str]] = defaultdict(set)
    learner = f"{group.kind.learner}.name"
    for row in group.rows:
        for key in group.options:
            values[_option(row, learner), key].add(json.dumps(_option(row, key)))
    return [
        " ".join([
            str(_option(row, learner)),
            *(f"{short}={_option(row, key)}" for key, short in group.options.items()
              if key != learner and len(values[_option(row, learner), key]) > 1),
        ])
        for row in group.rows
    ]  # fmt: skip


def _option(row: Row, key: str) -> Any:
    return row.entries[0].options.get(key)


def _colours(pyplot: Any, runs: Sequence[Drawn]) -> list[Any]:
    cycle = [*pyplot.rcParams["axes.prop_cycle"].by_key()["color"], *pyplot.get_cmap("tab20b").colors]
    return [cycle[number] if number < NAMED else GREY for number in range(len(runs))]


def _limits(runs: Sequence[Drawn]) -> tuple[float, float]:
    """From below the best run to above the worst; the first checks of a curve may be higher."""
    ends = [run.perplexity for run in runs]
    checks = [check[2] for run in runs for curve in run.curves for check in curve]
    return min(ends) / 1.06, min(max([*ends, *checks]) * 1.06, max(ends) * 1.7)
