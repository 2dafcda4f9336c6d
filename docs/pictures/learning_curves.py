"""Validation perplexity as runs learn, means over seeds: ``python learning_curves.py PLOT LABEL=RUN,RUN …``.

Each LABEL names finished runs that differ in their seed alone. Prints a row for each: the mean of the runs' best
validation and of their test perplexities, and at which check the mean curve reaches the lowest point of the first's.
With --hours checks stand at the hours of training before them, the mean of the runs; a run that goes on from another
one that is drawn (``trainer.from``) begins where that ends. Needs matplotlib (``pip install -e '.[dev]'``).
"""

import argparse
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from lmzoo.cli.command import CommandParser
from lmzoo.cli.ending import run_command
from lmzoo.core.errors import UserError
from lmzoo.core.files import write_output
from lmzoo.reports.charts import charts, legend, logarithmic, rendered


class Curve(NamedTuple):
    """Runs of several seeds, check by check."""

    epochs: list[float]
    hours: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]
    valid: float
    """Mean of the runs' best."""
    test: float
    names: set[str]
    """The folders that the runs had when they were trained."""
    begun: str | None
    """The folder of the run that they go on from."""

    @classmethod
    def of(cls, runs: list[Path]) -> "Curve":
        checks, results, configs = [], [], []
        for run in runs:
            if not (run / "results.json").exists():
                raise UserError(f"{run}: no finished run is there")
            finished = json.loads((run / "results.json").read_text())
            results.append(finished["perplexity"])
            checks.append(finished["checks"])
            config = run / "config.yaml"
            configs.append(yaml.safe_load(config.read_text()) if config.exists() else {})
            if len(checks[-1]) != len(checks[0]):
                raise UserError(f"{run}: {len(checks[-1])} checks, where {runs[0]} has {len(checks[0])}")
        columns = [[check["valid"] for check in column] for column in zip(*checks, strict=True)]
        hours = [statistics.mean(check["seconds"] for check in column) / 3600 for column in zip(*checks, strict=True)]
        best, test = (statistics.mean(result[split] for result in results) for split in ("valid", "test"))
        mean, low, high = ([f(column) for column in columns] for f in (statistics.mean, min, max))
        begun: Any = configs[0].get("trainer", {}).get("from")
        names = {str(config.get("run_dir")) for config in configs}
        return cls([check["epoch"] for check in checks[0]], hours, mean, low, high, best, test, names, begun)


def before(curve: Curve, curves: Mapping[str, Curve]) -> list[str]:
    """The curves that one goes on from, the first one first."""
    label = next((label for label, other in curves.items() if curve.begun in other.names), None)
    return [*before(curves[label], curves), label] if label else []


def draw(curves: Mapping[str, Curve], path: Path, against_hours: bool) -> None:
    with charts("this picture") as pyplot:
        figure, axes = pyplot.subplots(figsize=(7.2, 4.4))
        roots = list(dict.fromkeys((*before(curve, curves), label)[0] for label, curve in curves.items()))
        for label, curve in curves.items():
            earlier = before(curve, curves)
            spent = sum(curves[other].hours[-1] for other in earlier)
            checks = [spent + hour for hour in curve.hours] if against_hours else curve.epochs
            colour = f"C{roots.index((*earlier, label)[0])}"
            axes.plot(checks, curve.mean, color=colour, marker="." if len(checks) < 12 else "", label=label)
            axes.fill_between(checks, curve.low, curve.high, color=colour, alpha=0.25, linewidth=0)
        ends = [curve.mean[-1] for curve in curves.values()]
        highest = max(value for curve in curves.values() for value in curve.high)
        axes.set(xlabel="hours of training" if against_hours else "epochs", ylabel="validation perplexity")
        axes.set(xlim=(0, None), ylim=(min(ends) / 1.05, min(highest * 1.05, 1.7 * max(ends))))
        axes.margins(x=0.12)
        logarithmic(axes, "y")
        legend(axes)
        write_output(path, rendered(figure, path))


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
