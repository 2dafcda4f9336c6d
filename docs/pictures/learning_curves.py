"""Validation perplexity as runs learn, means over seeds: ``python learning_curves.py PLOT LABEL=RUN,RUN …``.

Each LABEL names finished runs that differ in their seed alone. Prints a row for each: the mean of the runs' best
validation and of their test perplexities, and at which check the mean curve reaches the lowest point of the first's.
With --hours checks stand at the hours of training before them, the mean of the runs.
Needs matplotlib (``pip install -e '.[bench]'``).
"""

import argparse
import statistics
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

from lmzoo.cli.command import CommandParser
from lmzoo.cli.ending import run_command
from lmzoo.core.errors import UserError
from lmzoo.runs.directory import Run


class Curve(NamedTuple):
    """Runs of several seeds, check by check."""

    hours: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]
    valid: float
    """Mean of the runs' best."""
    test: float

    @classmethod
    def of(cls, runs: list[Path]) -> "Curve":
        checks, hours, results = [], [], []
        for run in runs:
            if not (finished := Run(run).results()):
                raise UserError(f"{run}: no finished run is there")
            results.append(finished["perplexity"])
            checks.append([check["valid"] for check in finished["checks"]])
            hours.append([check["seconds"] / 3600 for check in finished["checks"]])
            if len(checks[-1]) != len(checks[0]):
                raise UserError(f"{run}: {len(checks[-1])} checks, where {runs[0]} has {len(checks[0])}")
        columns, times = (list(zip(*rows, strict=True)) for rows in (checks, hours))
        best, test = (statistics.mean(result[split] for result in results) for split in ("valid", "test"))
        mean, low, high = ([f(column) for column in columns] for f in (statistics.mean, min, max))
        return cls(list(map(statistics.mean, times)), mean, low, high, best, test)


def draw(curves: dict[str, Curve], path: Path, against_hours: bool) -> None:
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for label, curve in curves.items():
        checks = curve.hours if against_hours else range(1, len(curve.mean) + 1)
        axes.plot(checks, curve.mean, marker=".", label=label)
        axes.fill_between(checks, curve.low, curve.high, alpha=0.25)
    axes.set_xlabel("hours" if against_hours else "checks")
    axes.set_ylabel("validation perplexity")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:.0f}")
    axes.yaxis.set_minor_formatter("{x:.0f}")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)


def main() -> int:
    parser = CommandParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plot", type=Path)
    parser.add_argument("curves", nargs="+", metavar="LABEL=RUN,RUN…")
    parser.add_argument("--hours", action="store_true")
    arguments = parser.parse_args()
    pairs = [text.partition("=") for text in arguments.curves]
    if not all(runs for _, _, runs in pairs) or len({label for label, _, _ in pairs}) < len(pairs):
        parser.error("each curve is LABEL=RUN,RUN…, with a label of its own")
    curves = {label: Curve.of([Path(run) for run in runs.split(",")]) for label, _, runs in pairs}
    arguments.plot.parent.mkdir(parents=True, exist_ok=True)
    draw(curves, arguments.plot, arguments.hours)
    first = next(iter(curves.values()))
    goal, when = min(zip(first.mean, range(1, len(first.mean) + 1), strict=True))
    print("| | valid | test | checks to the first's lowest |\n|---|---|---|---|")
    for label, curve in curves.items():
        reached = next((n for n, value in enumerate(curve.mean, 1) if value <= goal), None)
        share = "never" if reached is None else f"{reached} of {when}"
        print(f"| {label} | {curve.valid:.2f} | {curve.test:.2f} | {share} |")
    return 0


if __name__ == "__main__":
    run_command(main)
