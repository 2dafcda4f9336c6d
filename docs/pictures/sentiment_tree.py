"""A tree with its sentiments for docs/labels.md: ``python docs/pictures/sentiment_tree.py RUN FILE.png``.

The tree of a line of test with the sentiments that a run of ``lmzoo label task=trees`` predicts. Needs matplotlib
(``pip install -e '.[dev]'``).
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lmzoo.cli.command import CommandParser
from lmzoo.cli.ending import run_command
from lmzoo.core.errors import UserError
from lmzoo.core.files import write_output
from lmzoo.labels.tasks import load_task
from lmzoo.labels.trees import SENTIMENTS, Tree
from lmzoo.reports.charts import charts, rendered
from lmzoo.runs.labellers import load_labeller


def places(right: Sequence[int]) -> list[tuple[float, int]]:
    """Where the nodes of a tree stand: across, a leaf by its number and others midway, and how high above leaves."""
    found: list[tuple[float, int]] = [(0.0, 0)] * len(right)
    leaf = sum(child == 0 for child in right)
    for node in reversed(range(len(right))):
        if right[node] == 0:
            leaf -= 1
            found[node] = (float(leaf), 0)
        else:
            (x, y), (z, w) = found[node + 1], found[right[node]]
            found[node] = ((x + z) / 2, max(y, w) + 1)
    return found


def draw_tree(tree: Tree, predicted: Sequence[str], path: Path) -> None:
    """A circle for each node with its predicted label, and the right one beside it where that is another."""
    at = places(tree.right)
    with charts("this picture") as pyplot:
        figure, axes = pyplot.subplots(figsize=(0.75 * len(tree.words) + 1.2, 0.5 * at[0][1] + 1.6))
        colours = pyplot.get_cmap("PuOr")(np.linspace(0.1, 0.9, len(SENTIMENTS)))
        words = iter(tree.words)
        for node, (x, y) in enumerate(at):
            for child in (node + 1, tree.right[node]) if tree.right[node] else ():
                axes.plot([x, at[child][0]], [y, at[child][1]], color="grey", linewidth=1, zorder=1)
            label, gold = predicted[node], tree.labels[node]
            colour = colours[SENTIMENTS.index(label)]
            axes.scatter([x], [y], s=230, color=colour, edgecolor="black", zorder=2)
            ink = "black" if colour[:3] @ (0.299, 0.587, 0.114) > 0.5 else "white"
            axes.text(x, y, label, ha="center", va="center", fontsize=9, zorder=3, color=ink)
            if gold != label:
                axes.text(x + 0.26, y, f"({gold})", va="center", fontsize=8, color="dimgrey")
            if not tree.right[node]:
                axes.text(x, -0.55, next(words), ha="center", va="top", fontsize=9, rotation=25)
        axes.set_ylim(-1.6, at[0][1] + 0.6)
        axes.set_xlim(-0.7, len(tree.words) - 0.3)
        axes.axis("off")
        write_output(path, rendered(figure, path))


def main() -> int:
    parser = CommandParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--line", type=int, default=1, help="the line of test that is drawn")
    options = parser.parse_args()
    run = load_labeller(options.run)
    _, texts, _ = load_task(run.task, run.labeller, type(run.labeller).__name__)
    if "test" not in texts:
        raise UserError(f"{options.run}: has no test text")
    sentences = texts["test"].sentences
    if not 1 <= options.line <= len(sentences):
        raise UserError(f"--line {options.line}: test has the lines 1 to {len(sentences)}")
    tree = sentences[options.line - 1]
    if not isinstance(tree, Tree) or not {*tree.labels} <= {*SENTIMENTS}:
        raise UserError(f"{options.run}: is of no trees with labels 0 to 4", "lmzoo tag --plot draws other labels")
    draw_tree(tree, run.labeller.label([tree])[0], options.file)
    return 0


if __name__ == "__main__":
    run_command(main)
