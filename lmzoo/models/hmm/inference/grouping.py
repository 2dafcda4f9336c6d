"""Ragged groups as rows of equal length, and cluster pairs by the cluster that they leave."""

from collections.abc import Iterator

from torch import Tensor

from lmzoo.numerics.sparse import ranges


def group(labels: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Put the items of each label into rows of equal length, so that a batched product can take all groups.

    An example, N = 5 items in rows of size 2; 5 fills a row up::

        item      0 1 2 3 4             members   label
        label     7 3 7 7 3       →      1   4      3
                                         0   2      7
                                         3   5      7

    Args:
        labels: (N,) int64, the label of each item.

    Returns:
        (R, size) item numbers, filled up with N, and the (R,) label of each row. Rows are ordered by label, and items
        of a label by number. A label without items has no row.
    """
    order = labels.argsort(stable=True)
    values, counts = labels[order].unique_consecutive(return_counts=True)
    rows = (counts + size - 1).div(size, rounding_mode="floor")  # of each label
    _, place = ranges((rows.cumsum(0) - rows) * size, counts)
    members = labels.new_full((int(rows.sum()) * size,), len(labels))
    members[place] = order
    return members.view(-1, size), values.repeat_interleave(rows)


def by_source(source: Tensor) -> Iterator[tuple[int, slice]]:
    """The different clusters among (P,) ascending sources, each with the slice of the pairs that leave it.

    Sources 0 0 2 3 3 give (0, pairs 0 to 1), (2, pair 2) and (3, pairs 3 to 4).
    """
    clusters, counts = source.unique_consecutive(return_counts=True)
    start = 0
    for cluster, count in zip(clusters.tolist(), counts.tolist(), strict=True):
        yield cluster, slice(start, start + count)
        start += count
