"""How good rankings are, by pytrec_eval, which computes as trec_eval does; and options chosen by cross-validation."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lmzoo.core.errors import UserError
from lmzoo.core.extras import import_optional
from lmzoo.retrieval.formats import Judgements, Ranking

MEASURES = {"MAP": "map", "nDCG@10": "ndcg_cut_10", "P@10": "P_10"}
"""The measures, and trec_eval's names of them."""


def measured(judgements: Judgements, rankings: Mapping[str, Ranking]) -> np.ndarray:
    """(Q, 3) `MEASURES` of each ranking whose query has a relevant document, in their order; 0 for an empty one.

    As in trec_eval, documents with equal scores count in the order of their names, the last first.
    """
    pytrec_eval = import_optional("pytrec_eval", "--qrels", "pytrec_eval", "'lmzoo-torch[retrieval]'")
    judged = judged_queries(judgements, rankings)
    evaluator = pytrec_eval.RelevanceEvaluator({q: dict(judgements[q]) for q in judged}, set(MEASURES.values()))
    figures: dict[str, Any] = evaluator.evaluate({query: dict(rankings[query]) for query in judged})
    return np.array([[figures[q][name] if q in figures else 0.0 for name in MEASURES.values()] for q in judged])


def judged_queries(judgements: Judgements, queries: Mapping[str, object]) -> list[str]:
    """The queries with a relevant document; a UserError where there is none."""
    judged = [query for query in queries if any(judgements.get(query, {}).values())]
    if not judged:
        raise UserError("no query has a relevant document", "judgements must name queries as their file does")
    return judged


def cross_validated(figures: np.ndarray, folds: int) -> np.ndarray:
    """(Q,) the options with the best mean on the queries of the other folds. Query i is in fold i mod ``folds``.

    Args:
        figures: (S, Q) the average precision of each query with each of S options.
        folds: their number, at most Q.
    """
    fold = np.arange(figures.shape[1]) % folds
    best = np.array([figures[:, fold != number].mean(1).argmax() for number in range(folds)])
    return best[fold]
