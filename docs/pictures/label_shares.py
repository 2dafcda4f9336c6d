"""Accuracy by the number of labelled sentences: ``python docs/pictures/label_shares.py PLOT LABEL=RUN,RUN …``.

Each LABEL names finished runs of ``lmzoo label``, alike but for the seed and for how many sentences their train text
has. Prints a row for each number of sentences and draws means over seeds, and the range of the runs, on test. Needs
matplotlib (``pip install -e '.[dev]'``).
"""

import argparse
import statistics
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from lmzoo.cli.command import CommandParser
from lmzoo.cli.ending import run_command
from lmzoo.core.errors import UserError
from lmzoo.core.files import write_output
from lmzoo.labels.tasks import load_task
from lmzoo.reports.charts import charts, legend, rendered
from lmzoo.runs.directory import Run
from lmzoo.runs.labellers import load_labeller

Curve = Mapping[int, list[float]]
"""By the number of sentences, the measure on test in % of each run."""


def curve(runs: list[Path]) -> Curve:
    """The figures of some runs.

    Raises: UserError for a run that is not finished, and as `load_labeller` does.
    """
    found: dict[int, list[float]] = defaultdict(list)
    for folder in runs:
        run = load_labeller(folder)
        results = Run(folder).results()
        if not results or "test" not in results["figures"]:
            raise UserError(f"{folder}: no finished run with a test text is there")
        train = load_task(run.task, run.labeller, results["labeller"])[1]["train"]
        found[len(train.sentences)].append(100 * results["figures"]["test"])
    return dict(sorted(found.items()))


def draw(curves: Mapping[str, Curve], path: Path) -> None:
    with charts("this picture") as pyplot:
        figure, axes = pyplot.subplots(figsize=(6.4, 4))
        for label, points in curves.items():
            means = {number: statistics.mean(values) for number, values in points.items()}
            axes.plot([*means], [*means.values()], marker="o", label=label)
            low, high = ([end(values) for values in points.values()] for end in (min, max))
            axes.fill_between([*points], low, high, alpha=0.25, linewidth=0)
        axes.set(xscale="log", xlabel="labelled sentences", ylabel="% right on test")
        sentences = sorted({number for points in curves.values() for number in points})
        axes.set_xticks(sentences, [f"{number:,}" for number in sentences])
        axes.minorticks_off()
        legend(axes)
        write_output(path, rendered(figure, path))


def main() -> int:
    parser = CommandParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plot", type=Path)
    parser.add_argument("curves", nargs="+", metavar="LABEL=RUN,RUN…")
    arguments = parser.parse_args()
    pairs = [text.partition("=") for text in arguments.curves]
    if not all(runs for _, _, runs in pairs) or len({label for label, _, _ in pairs}) < len(pairs):
        parser.error("each curve is LABEL=RUN,RUN…, with a label of its own")
    curves = {label: curve([Path(run) for run in runs.split(",")]) for label, _, runs in pairs}
    draw(curves, arguments.plot)
    print(f"| sentences | {' | '.join(curves)} |\n|---|{'---|' * len(curves)}")
    for number in sorted({number for points in curves.values() for number in points}):
        means = [f"{statistics.mean(points[number]):.2f}" if number in points else "" for points in curves.values()]
        print(f"| {number:,} | {' | '.join(means)} |")
    return 0


if __name__ == "__main__":
    run_command(main)
