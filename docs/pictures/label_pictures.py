"""Pictures of a run of labels for docs/labels.md: ``python docs/pictures/label_pictures.py RUN FILE.png``.

A run of words is drawn as its confusion of labels on test, a run of trees as the tree of a line of test with the
sentiments that it predicts. Needs matplotlib (``pip install -e '.[bench]'``).
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np

from lmzoo.cli.command import CommandParser
from lmzoo.cli.ending import run_command
from lmzoo.core.errors import UserError
from lmzoo.labels.formats import Sentence
from lmzoo.labels.tasks import load_task
from lmzoo.labels.trees import SENTIMENTS, Tree
from lmzoo.runs.labellers import load_labeller

mpl.use("Agg")
from matplotlib import pyplot as plt

SHOWN = 20
"""How many labels the picture of confusion shows, the most frequent ones."""

LEAST = 0.5
"""From so many % a share is written."""


def shares(gold: Sequence[str], predicted: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The most frequent labels of gold, and how many % of the words of each (row) are given each (column)."""
    counts = Counter(gold)
    labels = [label for label, _ in counts.most_common(SHOWN)]
    pairs = Counter(zip(gold, predicted, strict=True))
    return labels, np.array([[100 * pairs[row, column] / counts[row] for column in labels] for row in labels])


def draw_confusion(labels: list[str], percent: np.ndarray, path: Path) -> None:
    """Right labels in grey numbers; the colour of an error is its share of the row."""
    figure, axes = plt.subplots(figsize=(8.4, 7.2), layout="constrained")
    errors = np.where(np.eye(len(labels)) > 0, np.nan, percent)
    image = axes.imshow(errors, cmap="Reds", vmin=0, vmax=min(float(np.nanmax(errors)), 15))
    figure.colorbar(image, ax=axes, shrink=0.8, label="% of the words of a row, where wrong", extend="max")
    for row, column in zip(*np.nonzero(percent >= LEAST), strict=True):
        value = percent[row, column]
        colour = "grey" if row == column else "white" if value > 10 else "black"
        axes.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=6.5, color=colour)
    axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=8)
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.set_xlabel("predicted")
    axes.set_ylabel("right")
    figure.savefig(path, dpi=110)


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
    figure, axes = plt.subplots(figsize=(0.75 * len(tree.words) + 1.2, 0.5 * at[0][1] + 1.6), layout="constrained")
    colours = plt.get_cmap("RdYlGn")(np.linspace(0.1, 0.9, len(SENTIMENTS)))
    words = iter(tree.words)
    for node, (x, y) in enumerate(at):
        for child in (node + 1, tree.right[node]) if tree.right[node] else ():
            axes.plot([x, at[child][0]], [y, at[child][1]], color="grey", linewidth=1, zorder=1)
        label, gold = predicted[node], tree.labels[node]
        axes.scatter([x], [y], s=230, color=colours[SENTIMENTS.index(label)], edgecolor="black", zorder=2)
        axes.text(x, y, label, ha="center", va="center", fontsize=9, zorder=3)
        if gold != label:
            axes.text(x + 0.26, y, f"({gold})", va="center", fontsize=8, color="dimgrey")
        if not tree.right[node]:
            axes.text(x, -0.55, next(words), ha="center", va="top", fontsize=9, rotation=25)
    axes.set_ylim(-1.6, at[0][1] + 0.6)
    axes.set_xlim(-0.7, len(tree.words) - 0.3)
    axes.axis("off")
    figure.savefig(path, dpi=110)


def labelled(folder: Path) -> tuple[list[Sentence], list[list[str]]]:
    """The test of a run, and the labels that it predicts."""
    run = load_labeller(folder)
    _, texts, _ = load_task(run.task, run.labeller, type(run.labeller).__name__)
    if "test" not in texts:
        raise UserError(f"{folder}: has no test text")
    return texts["test"].sentences, run.labeller.label(texts["test"].sentences)


def main() -> int:
    parser = CommandParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--line", type=int, default=1, help="of trees: the line of test that is drawn")
    options = parser.parse_args()
    sentences, predicted = labelled(options.run)
    if not 1 <= options.line <= len(sentences):
        raise UserError(f"--line {options.line}: test has the lines 1 to {len(sentences)}")
    tree = sentences[options.line - 1]
    if not isinstance(tree, Tree):
        gold, ours = ([x for row in rows for x in row] for rows in ([s.labels for s in sentences], predicted))
        draw_confusion(*shares(gold, ours), options.file)
    elif {*tree.labels} <= {*SENTIMENTS}:
        draw_tree(tree, predicted[options.line - 1], options.file)
    else:
        raise UserError(f"{options.run}: its labels are not 0 to 4")
    return 0


if __name__ == "__main__":
    run_command(main)
