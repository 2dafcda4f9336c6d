"""The likelihood of a query under a language model of each document (Ponte & Croft 1998).

Unigrams have two-stage smoothing (Zhai & Lafferty 2002, eq. 6), with the collection as the background of queries:

    p(w|d) = (1 − λ) (c(w, d) + μ p(w|C)) / (|d| + μ) + λ p(w|C)

It is the Dirichlet prior of Zhai & Lafferty (2001, Table I) where λ = 0, and Jelinek-Mercer where μ = 0. A longer
history h backs off to the shorter h′ by a Dirichlet prior of its own (MacKay & Peto 1995):

    p(w|h, d) = (c(hw, d) + ν p(w|h′, d)) / (Σ_v c(hv, d) + ν)
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lmzoo.core.errors import UserError
from lmzoo.retrieval.index import Index

BOUNDS = {
    "mu": (0, 1e12),
    "lam": (0, 1),
    "order": (1, 100),
    "nu": (1e-6, 1e12),
    "feedback": (0, 1_000_000),
    "terms": (1, 1_000_000),
    "weight": (0, 1),
}
"""The least and the most of each of the `RankingOptions`."""


@dataclass(frozen=True)
class RankingOptions:
    """How documents are scored.

    Attributes:
        mu: μ, in words.
        lam: λ.
        order: the most words of an n-gram.
        nu: ν, in words; of no effect where ``order`` is 1.
        feedback: the number of documents of `relevance_model`; 0 is no feedback.
        terms: the number of its words.
        weight: the weight of the query beside it.

    Raises: UserError for a value that cannot be.
    """

    mu: float
    lam: float
    order: int
    nu: float
    feedback: int
    terms: int
    weight: float

    def __post_init__(self):
        for option, (least, most) in BOUNDS.items():
            if not least <= getattr(self, option) <= most:
                raise UserError(f"--{option.replace('lam', 'lambda')} must be {least:g} to {most:g}")
        if self.mu < 1e-6 and self.lam < 1e-9:
            raise UserError("--mu 0 with --lambda 0 gives unseen words no probability", "let one of them be larger")


def probability(index: Index, gram: Sequence[int], settings: RankingOptions) -> np.ndarray:
    """(N,) p(w|h, d) of the last word of an n-gram after the others, in each document."""
    if len(gram) > 1:
        shorter = probability(index, gram[1:], settings)
        return (index.count(gram) + settings.nu * shorter) / (index.followed(gram[:-1]) + settings.nu)
    mu, lam, share = settings.mu, settings.lam, index.share(gram[0])
    length = np.maximum(index.lengths + mu, 1e-6)  # a document may be empty where μ = 0
    return (1 - lam) * (index.count(gram) + mu * share) / length + lam * share


def log_likelihood(index: Index, query: Sequence[int], settings: RankingOptions) -> np.ndarray:
    """(N,) log p(q|d) in nats; the first words of the query have shorter histories."""
    grams = Counter(tuple(query[max(0, end - settings.order) : end]) for end in range(1, len(query) + 1))
    return sum((n * np.log(probability(index, g, settings)) for g, n in grams.items()), np.zeros(len(index.names)))


def relevance_model(index: Index, scores: np.ndarray, documents: int, terms: int) -> dict[int, float]:
    """p(w|R) of the likeliest words, from the best documents (Lavrenko & Croft 2001, eq. 13, method 1).

        p(w|R) ∝ Σ_d c(w, d)/|d| · p(q|d) p(d)

    Args:
        index: of the documents.
        scores: (N,) log p(q|d) p(d) + const; -inf for documents to leave out.
        documents: how many count, the best.
        terms: how many words are kept; their probabilities sum to 1.
    """
    best = np.argsort(-scores, kind="stable")[:documents]
    best = best[np.isfinite(scores[best])]
    weights = np.exp(scores[best] - scores[best].max(initial=-np.inf))
    texts = [index.text(d) for d in best]
    found = np.zeros(len(index.words))
    for text, weight in zip(texts, weights / weights.sum(), strict=True):
        found += np.bincount(text, minlength=len(found)) * weight / len(text)
    kept = np.argsort(-found, kind="stable")[:terms]
    kept = kept[found[kept] > 0]
    return dict(zip(kept.tolist(), (found[kept] / found[kept].sum()).tolist(), strict=True))


def score(index: Index, query: Sequence[int], settings: RankingOptions, prior: np.ndarray) -> np.ndarray:
    """(N,) the score of each document, and -inf where it has no word of the query.

    It is log p(q|d) p(d). With feedback it is that of RM3 (Abdul-Jaleel et al. 2004), a weighted sum, where |q| is the
    number of the query's words:

        weight · log p(q|d) + (1 − weight) |q| Σ_w p(w|R) log p(w|d) + log p(d)

    Args:
        index: of the documents.
        query: its words.
        settings: how to score.
        prior: (N,) log p(d) + const.
    """
    likelihood = log_likelihood(index, query, settings)
    scores = np.where(_has_any(index, query), likelihood + prior, -np.inf)
    if not settings.feedback or not np.isfinite(scores).any():
        return scores
    model = relevance_model(index, scores, settings.feedback, settings.terms)
    expected = sum(p * np.log(probability(index, [word], settings)) for word, p in model.items())
    expanded = settings.weight * likelihood + (1 - settings.weight) * len(query) * expected + prior
    return np.where(_has_any(index, [*query, *model]), expanded, -np.inf)


def _has_any(index: Index, words: Sequence[int]) -> np.ndarray:
    """(N,) whether a document has one of these words."""
    return sum((index.count([word]) for word in set(words)), np.zeros(len(index.names))) > 0


def ranked(index: Index, scores: np.ndarray, depth: int) -> dict[str, float]:
    """The names and scores of at most so many documents, the best first; among equals the first of the collection."""
    best = np.argsort(-scores, kind="stable")[:depth]
    return {index.names[d]: float(scores[d]) for d in best if scores[d] > -np.inf}
