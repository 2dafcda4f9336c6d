"""Perplexity of Penn Treebank's test by the seconds of training, for all families: ``python docs/pictures/seconds.py``.

Our runs of ``penn_treebank.csv`` whose evidence is kept. What a run starts from, or is made of, counts with it. Needs
matplotlib (``pip install -e '.[dev]'``).
"""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from omegaconf import OmegaConf
from penn_treebank import FAMILIES, HERE, figures

from lmzoo.core.files import write_output
from lmzoo.reports.charts import charts, logarithmic, rendered
from lmzoo.reports.plot import PlottedRun, plot_by_cost

DOCS = HERE.parent
PICTURE = HERE / "seconds.svg"


@cache
def folders() -> Mapping[str, Path]:
    """The evidence of each run by the folder that the run had."""
    found = sorted(file.parent for part in ("results", "history") for file in (DOCS / part).rglob("results.json"))
    return {str(OmegaConf.load(folder / "config.yaml").run_dir): folder for folder in found}


def seconds(folder: Path) -> float:
    """Of training, with all that the run was made from."""
    return sum(json.loads((part / "results.json").read_text())["seconds"] for part in parts(folder))


def parts(folder: Path) -> set[Path]:
    """The evidence of a run, and of all runs that it was made from."""
    named = re.findall(r"outputs/[\w./-]+", (folder / "config.yaml").read_text(encoding="utf-8"))
    others = {folders()[name] for name in named if name in folders()} - {folder}
    return {folder}.union(*map(parts, others))


def main() -> None:
    ours = [
        figure
        for figure in figures()
        if figure.ours and figure.name and (DOCS / figure.source / "results.json").exists()
    ]
    runs, colours = [], []
    for figure in ours:
        runs.append(PlottedRun(figure.name, float(figure.perplexity), seconds(DOCS / figure.source), None))
        colours.append(FAMILIES[figure.family][0])
    with charts("this picture") as pyplot:
        figure, axes = pyplot.subplots(figsize=(7.2, 4.4))
        axes.set(title="Perplexity by the time of training")
        axes.set(ylabel="perplexity of Penn Treebank’s test", ylim=(50, 210))
        logarithmic(axes, "y")
        plot_by_cost(axes, runs, colours, "seconds of training", lambda run: run.seconds)
        for family, (colour, _) in FAMILIES.items():
            axes.plot([], [], "o", color=colour, label=family)
        axes.legend(loc="lower left", labelcolor="linecolor")
        write_output(PICTURE, rendered(figure, PICTURE))


if __name__ == "__main__":
    main()
