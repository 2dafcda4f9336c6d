"""Scores of the documents that have a word of a query, and their ranking."""

from typing import NamedTuple

import numpy as np

from lmzoo.retrieval.index import Index


class Scores(NamedTuple):
    """The documents that have a word of a query, and their scores.

    Attributes:
        documents: (n,) their places in the collection, ascending.
        values: (n,) the score of each.
    """

    documents: np.ndarray
    values: np.ndarray

    def best(self, depth: int) -> "Scores":
        """The documents with the highest scores, at most ``depth``, the best first; among equals the first."""
        best = np.arange(len(self.values))
        if len(best) > depth:
            best = np.flatnonzero(self.values >= np.partition(self.values, -depth)[-depth])
        best = best[np.argsort(-self.values[best], kind="stable")][:depth]
        return Scores(self.documents[best], self.values[best])


def ranked(index: Index, scores: Scores, depth: int) -> dict[str, float]:
    """The names and scores of the best documents, as `Scores.best`."""
    best = scores.best(depth)
    return dict(zip(map(index.names.__getitem__, best.documents.tolist()), best.values.tolist(), strict=True))
