"""BM25 (Robertson et al. 1994), beside the likelihoods."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import numpy as np

from lmzoo.core.options import Bounds, Probability
from lmzoo.retrieval.index import Index, Scores


def bm25(
    index: Index, query: Sequence[int], *, k1: Annotated[float, Bounds(low=0, high=1e6)], b: Probability
) -> Scores:
    """Score the documents that have a word of the query.

        Σ_w c(w, q) · log(1 + (N − n(w) + ½) / (n(w) + ½)) · c(w, d) / (c(w, d) + k₁ (1 − b + b |d| / mean |d|))

    n(w) of the N documents have the word w. The first factor is Lucene's, which is never negative.

    Args:
        k1: k₁; the larger, the more a repeated word counts.
        b: how much the lengths of documents count.
    """
    times, documents = Counter(query), index.documents_with(query)
    visited, count, word = index.postings([*times])
    having = np.bincount(word, minlength=len(times))
    rarity = np.log1p((len(index.names) - having + 0.5) / (having + 0.5))
    length = index.lengths[visited] / max(index.lengths.mean(), 1e-9)
    parts = (np.array([*times.values()]) * rarity)[word] * count / (count + k1 * (1 - b + b * length))
    return Scores(documents, np.bincount(visited, parts, minlength=len(index.names))[documents])
