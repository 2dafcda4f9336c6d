"""Which options of ``labeller=naive_bayes`` a text chooses, by folds within folds: ``… naive_bayes_options.py TEXT``.

For each of ten parts of the text, options are chosen by mean accuracy on the nine others: each is held out in turn,
and the other eight are train. Then the part is test, and the nine others are train. Counts of parts add up, so that
all is learnt from sums. Prints the figures of every choice, and test with the options that each part got.
"""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from lmzoo.cli.command import CommandParser
from lmzoo.cli.ending import run_command
from lmzoo.core.errors import UserError
from lmzoo.labels.formats import LineText
from lmzoo.labels.ngrams import NaiveBayes

FOLDS = 10
ORDERS = (2, 3)
PREFIXES = ([], [4], [5], [6], [4, 5], [5, 6], [4, 5, 6], [3, 4, 5, 6], [4, 5, 6, 7])
ALPHAS = (0.5, 1.0, 2.0)

Options = tuple[int, tuple[int, ...], float]
"""Order, prefixes, alpha."""


class Figures(NamedTuple):
    """Accuracies of a choice of options."""

    inner: np.ndarray
    """(FOLDS, FOLDS) on part d, where f is held out as well; without meaning for f = d."""
    test: np.ndarray
    """(FOLDS,)."""


def measured(text: LineText, order: int, prefixes: list[int]) -> Iterator[tuple[Options, Figures]]:
    """The figures for each alpha, the folds being those of ``task.folds=10`` with seed 0."""
    grams = NaiveBayes(order=order, prefixes=prefixes, alpha=1.0)._grams
    index: dict[str, int] = {}
    columns = [[index.setdefault(gram, len(index)) for gram in grams(s.words)] for s in text.sentences]
    ends = np.cumsum([0, *map(len, columns)])
    matrix = csr_matrix((np.ones(ends[-1], np.float32), np.concatenate(columns), ends), (len(columns), len(index)))
    names = sorted({s.labels[0] for s in text.sentences})
    gold = np.array([s.labels[0] == names[1] for s in text.sentences])
    part = np.empty(len(gold), np.int64)
    part[np.random.default_rng(0).permutation(len(gold))] = np.arange(len(gold)) % FOLDS
    counts = np.array([[np.asarray(matrix[(part == p) & (gold == k)].sum(0)).ravel() for k in (False, True)]
                       for p in range(FOLDS)])  # fmt: skip
    texts = np.array([[((part == p) & (gold == k)).sum() for k in (False, True)] for p in range(FOLDS)])
    rows = [matrix[part == p] for p in range(FOLDS)]

    def right(alpha: float, out: tuple[int, ...]) -> list[float]:
        """Accuracy on each of the parts that train is without."""
        rest = [p for p in range(FOLDS) if p not in out]
        known, lines = counts[rest].sum(0), texts[rest].sum(0)
        seen = known.any(0)
        logs = np.log(known + alpha) - np.log(known.sum(1) + alpha * seen.sum())[:, None]
        weights, bias = np.where(seen, logs[1] - logs[0], 0), np.log(lines[1] / lines[0])
        return [float(((rows[p] @ weights + bias > 0) == gold[part == p]).mean()) for p in out]

    for alpha in ALPHAS:
        inner = np.zeros((FOLDS, FOLDS))
        for f, d in combinations(range(FOLDS), 2):
            inner[d, f], inner[f, d] = right(alpha, (f, d))
        yield (order, tuple(prefixes), alpha), Figures(inner, np.array([right(alpha, (f,))[0] for f in range(FOLDS)]))


def main() -> int:
    parser = CommandParser(description=__doc__)
    parser.add_argument("text", type=Path, help="a label, a tab and a text a line; two labels")
    text = LineText.read(parser.parse_args().text)
    if (number := len({s.labels[0] for s in text.sentences})) != 2:
        raise UserError(f"there are {number} labels", "this needs a text with two labels")
    found = dict(pair for order in ORDERS for prefixes in PREFIXES for pair in measured(text, order, prefixes))
    for options, figures in found.items():
        inner = figures.inner.sum() / (FOLDS * (FOLDS - 1))
        print(f"{options}: inner {100 * inner:.2f}, test {100 * figures.test.mean():.2f}")
    chosen = [max(found, key=lambda options, f=f: found[options].inner[f].sum()) for f in range(FOLDS)]
    test = np.array([100 * found[options].test[f] for f, options in enumerate(chosen)])
    print(f"chosen: {chosen}\ntest {test.mean():.2f} ± {test.std(ddof=1):.2f}")
    return 0


if __name__ == "__main__":
    run_command(main)
