"""The likelihood of a query under a language model of each document (Ponte & Croft 1998).

Unigrams have two-stage smoothing (Zhai & Lafferty 2002, eq. 6), with the collection as the background of queries:

    p(w|d) = (1 − λ) (c(w, d) + μ p(w|C)) / (|d| + μ) + λ p(w|C)

It is the Dirichlet prior of Zhai & Lafferty (2001, Table I) where λ = 0, and Jelinek-Mercer where μ = 0. A longer
history h backs off to the shorter h′ by a Dirichlet prior of its own (MacKay & Peto 1995):

    p(w|h, d) = (c(hw, d) + ν p(w|h′, d)) / (Σ_v c(hv, d) + ν)
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np

from lmzoo.core.errors import UserError
from lmzoo.core.options import Bounds, Count, Depth, Probability, Size, check
from lmzoo.retrieval.index import Index


@dataclass(frozen=True)
class RankingOptions:
    """How documents are scored.

    Attributes:
        mu: μ, in words.
        lambda_: λ.
        order: the most words of an n-gram.
        nu: ν, in words; of no effect where ``order`` is 1.
        feedback: the number of documents of `relevance_model`; 0 is no feedback.
        terms: the number of its words.
        weight: the weight of the query beside it.

    Raises: UserError for a value that cannot be.
    """

    mu: Annotated[float, Bounds(low=0, high=1e12)]
    lambda_: Probability
    order: Depth
    nu: Annotated[float, Bounds(low=1e-6, high=1e12)]
    feedback: Count
    terms: Size
    weight: Probability

    def __post_init__(self):
        check(RankingOptions, {name.removesuffix("_"): value for name, value in vars(self).items()}, "--")
        if self.mu < 1e-6 and self.lambda_ < 1e-9:
            raise UserError("--mu 0 with --lambda 0 gives unseen words no probability", "let one of them be larger")


def probability(index: Index, gram: Sequence[int], options: RankingOptions) -> np.ndarray:
    """(N,) p(w|h, d) of the last word of an n-gram after the others, in each document."""
    if len(gram) > 1:
        shorter = probability(index, gram[1:], options)
        return (index.count(gram) + options.nu * shorter) / (index.followed(gram[:-1]) + options.nu)
    mu, lambda_, share = options.mu, options.lambda_, index.share(gram[0])
    return (1 - lambda_) * (index.count(gram) + mu * share) / _lengths(index, mu) + lambda_ * share


def _lengths(index: Index, mu: float) -> np.ndarray:
    """(N,) |d| + μ."""
    return np.maximum(index.lengths + mu, 1e-6)  # a document may be empty where μ = 0


def log_likelihood(index: Index, query: Sequence[int], options: RankingOptions) -> np.ndarray:
    """(N,) log p(q|d) in nats; the first words of the query have shorter histories."""
    if options.order == 1:
        return expected_log(index, Counter(query), options)
    grams = Counter(tuple(query[max(0, end - options.order) : end]) for end in range(1, len(query) + 1))
    return sum((n * np.log(probability(index, g, options)) for g, n in grams.items()), np.zeros(len(index.names)))


def expected_log(index: Index, weights: Mapping[int, float], options: RankingOptions) -> np.ndarray:
    """(N,) Σ_w weight(w) log p(w|d) in nats, by a visit to each document that has the word.

    p(w|d) is b(d) p(w|C) where d does not have w, and else that times 1 + (1 − λ) c(w, d) / ((|d| + μ) b(d) p(w|C)).
    """
    log_b, factor = _unseen(index, options.mu, options.lambda_)
    share = {word: index.share(word) for word in weights}
    result = sum(weights.values()) * log_b + sum(weight * np.log(share[word]) for word, weight in weights.items())
    for word, weight in weights.items():
        documents, counts = index.postings(word)
        result[documents] += weight * np.log1p(counts / share[word] * factor[documents])
    return result


@lru_cache(maxsize=1)
def _unseen(index: Index, mu: float, lambda_: float) -> tuple[np.ndarray, np.ndarray]:
    """(N,) log b(d) and (N,) (1 − λ) / ((|d| + μ) b(d)), which all queries share; see `expected_log`."""
    length = _lengths(index, mu)
    b = (1 - lambda_) * mu / length + lambda_
    return np.log(b), (1 - lambda_) / (length * b)


def relevance_model(index: Index, scores: np.ndarray, documents: int, terms: int) -> dict[int, float]:
    """p(w|R) of the likeliest words, from the best documents (Lavrenko & Croft 2001, eq. 13, method 1).

        p(w|R) ∝ Σ_d c(w, d)/|d| · p(q|d) p(d)

    Args:
        scores: (N,) log p(q|d) p(d) + const; -inf for documents to leave out.
        documents: how many count, the best.
        terms: how many words the model has; their probabilities sum to 1.
    """
    best = _best(scores, documents)
    weights = np.exp(scores[best] - scores[best].max(initial=-np.inf))
    p = np.zeros(len(index.words))
    for text, weight in zip(map(index.text, best), weights / weights.sum(), strict=True):
        p += np.bincount(text, minlength=len(p)) * weight / len(text)
    likeliest = np.argsort(-p, kind="stable")[:terms]
    likeliest = likeliest[p[likeliest] > 0]
    return dict(zip(likeliest.tolist(), (p[likeliest] / p[likeliest].sum()).tolist(), strict=True))


def score(index: Index, query: Sequence[int], options: RankingOptions, prior: np.ndarray) -> np.ndarray:
    """(N,) the score of each document, and -inf where it has no word of the query.

    It is log p(q|d) p(d). With feedback it is that of RM3 (Abdul-Jaleel et al. 2004), a weighted sum, where |q| is the
    number of the query's words:

        weight · log p(q|d) + (1 − weight) |q| Σ_w p(w|R) log p(w|d) + log p(d)

    Args:
        prior: (N,) log p(d) + const.
    """
    likelihood = log_likelihood(index, query, options)
    scores = np.where(_has_any(index, query), likelihood + prior, -np.inf)
    if not options.feedback or not np.isfinite(scores).any():
        return scores
    model = relevance_model(index, scores, options.feedback, options.terms)
    expected = expected_log(index, model, options)
    expanded = options.weight * likelihood + (1 - options.weight) * len(query) * expected + prior
    return np.where(_has_any(index, [*query, *model]), expanded, -np.inf)


def _has_any(index: Index, words: Sequence[int]) -> np.ndarray:
    """(N,) whether a document has one of these words."""
    has = np.zeros(len(index.names), bool)
    for word in words:
        has[index.postings(word)[0]] = True
    return has


def _best(scores: np.ndarray, depth: int) -> np.ndarray:
    """The places of at most so many scores above -inf, the best first; among equals the first."""
    best = np.flatnonzero(scores > -np.inf)
    if len(best) > depth:
        best = best[scores[best] >= np.partition(scores[best], -depth)[-depth]]
    return best[np.argsort(-scores[best], kind="stable")][:depth]


def ranked(index: Index, scores: np.ndarray, depth: int) -> dict[str, float]:
    """The names and scores of at most so many documents, the best first; among equals the first of the collection."""
    best = _best(scores, depth)
    return dict(zip(map(index.names.__getitem__, best.tolist()), scores[best].tolist(), strict=True))
