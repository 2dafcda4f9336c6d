"""BM25 (Robertson et al. 1994), beside the likelihoods."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from lmzoo.core.options import Bounds, Probability, check
from lmzoo.retrieval.index import Index


@dataclass(frozen=True)
class BM25:
    """Σ_w c(w, q) · log(1 + (N − n(w) + ½) / (n(w) + ½)) · c(w, d) / (c(w, d) + k₁ (1 − b + b |d| / mean |d|)).

    n(w) of the N documents have the word w. The first factor is Lucene's, which is never negative.

    Attributes:
        k1: k₁; the larger, the more a repeated word counts.
        b: how much the lengths of documents count.

    Raises: UserError for a value that cannot be.
    """

    k1: Annotated[float, Bounds(low=0, high=1e6)]
    b: Probability

    def __post_init__(self):
        check(BM25, vars(self), "--bm25 ")

    def score(self, index: Index, query: Sequence[int]) -> np.ndarray:
        """(N,) the score of each document, and -inf where it has no word of the query."""
        scores, documents = np.zeros(len(index.names)), len(index.names)
        norm = self.k1 * (1 - self.b + self.b * index.lengths / max(index.lengths.mean(), 1e-9))
        for word, times in Counter(query).items():
            which, count = index.postings(word)
            rarity = np.log1p((documents - len(which) + 0.5) / (len(which) + 0.5))
            scores[which] += times * rarity * count / (count + norm[which])
        return np.where(scores > 0, scores, -np.inf)
