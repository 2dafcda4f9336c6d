"""Confusion matrices of labels as pictures."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lmzoo.core.errors import printable, shortened
from lmzoo.reports.charts import charts, heat_map, rendered

SHOWN = 20
"""The number of labels in the picture, the most frequent ones."""

LEAST = 0.5
"""The smallest percentage that is written."""


def shares(right: Sequence[str], predicted: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The most frequent correct labels, and the percentage of each (row) predicted as each (column)."""
    counts = Counter(right)
    labels = [label for label, _ in counts.most_common(SHOWN)]
    pairs = Counter(zip(right, predicted, strict=True))
    return labels, np.array([[100 * pairs[row, column] / counts[row] for column in labels] for row in labels])


def picture_of_confusion(labels: Sequence[str], percent: np.ndarray, title: str, file: Path) -> bytes:
    """Draw a confusion matrix: correct predictions as grey numbers, errors coloured by their share of the row."""
    with charts("--plot") as pyplot:
        across = 1.6 + 0.34 * max(len(labels), 8)
        figure, axes = pyplot.subplots(figsize=(across + 0.9, across))
        names = [printable(shortened(label, 14)) for label in labels]
        errors = np.where(np.eye(len(labels)) > 0, 0, percent)
        most = max(15.0, float(errors.max()))
        heat_map(axes, errors, names, "Oranges", most, label="% of the row, where wrong")
        for row, column in zip(*np.nonzero(percent >= LEAST), strict=True):
            value = percent[row, column]
            dark = row != column and value > 0.6 * most
            axes.text(column, row, f"{value:.0f}" if value >= 9.95 else f"{value:.1f}", ha="center", va="center",
                      fontsize=6.5, color="white" if dark else "#777777" if row == column else "black")  # fmt: skip
        axes.set(xlabel="predicted", ylabel="right, the most frequent first; rows in %")
        axes.set_title(printable(title), parse_math=False)
        return rendered(figure, file)
