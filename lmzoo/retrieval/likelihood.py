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
from lmzoo.retrieval.index import Index, Scores


@dataclass(frozen=True)
class RankingOptions:
    """How documents are scored.

    Attributes:
        mu: μ, in words.
        lambda_: λ.
        order: the most words of an n-gram.
        nu: ν, in words; of no effect where ``order`` is 1.
        feedback: the number of documents of `relevance_model`; 0: no feedback.
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
        return (index.count(gram) + options.nu * shorter) / (index.count(gram[:-1], followed=True) + options.nu)
    mu, lambda_, share = options.mu, options.lambda_, index.share(gram[0])
    return (1 - lambda_) * (index.count(gram) + mu * share) / _lengths(index, mu) + lambda_ * share


def _lengths(index: Index, mu: float) -> np.ndarray:
    """(N,) |d| + μ."""
    return np.maximum(index.lengths + mu, 1e-6)  # a document may be empty where μ = 0


def log_likelihood(
    index: Index, query: Sequence[int], options: RankingOptions, documents: np.ndarray | None = None
) -> np.ndarray:
    """(n,) log p(q|d) in nats of some documents or all; the first words of the query have shorter histories."""
    documents = np.arange(len(index.names)) if documents is None else documents
    if options.order == 1:
        return expected_log(index, Counter(query), options, documents)
    grams = Counter(tuple(query[max(0, end - options.order) : end]) for end in range(1, len(query) + 1))
    return sum(
        (n * np.log(probability(index, g, options)[documents]) for g, n in grams.items()), np.zeros(len(documents))
    )


def expected_log(
    index: Index, weights: Mapping[int, float], options: RankingOptions, documents: np.ndarray
) -> np.ndarray:
    """(n,) Σ_w weight(w) log p(w|d) in nats of some documents, by a visit to each that has the word.

    p(w|d) is b(d) p(w|C) where d does not have w, and else that times 1 + (1 − λ) c(w, d) / ((|d| + μ) b(d) p(w|C)).
    """
    log_b, factor = _unseen(index, options.mu, options.lambda_)
    weight, share = np.array([*weights.values()]), np.array([index.share(word) for word in weights])
    visited, counts, word = index.postings([*weights])
    gain = weight[word] * np.log1p(counts / share[word] * factor[visited])
    gain = np.bincount(visited, gain, minlength=len(index.names))
    return gain[documents] + weight.sum() * log_b[documents] + weight @ np.log(share)


@lru_cache(maxsize=1)
def _unseen(index: Index, mu: float, lambda_: float) -> tuple[np.ndarray, np.ndarray]:
    """(N,) log b(d) and (N,) (1 − λ) / ((|d| + μ) b(d)), which all queries share; see `expected_log`."""
    length = _lengths(index, mu)
    b = (1 - lambda_) * mu / length + lambda_
    return np.log(b), (1 - lambda_) / (length * b)


def relevance_model(index: Index, best: Scores, terms: int) -> dict[int, float]:
    """p(w|R) of the likeliest words, from the best documents (Lavrenko & Croft 2001, eq. 13, method 1).

        p(w|R) ∝ Σ_d c(w, d)/|d| · p(q|d) p(d)

    Args:
        best: the documents that count, with scores log p(q|d) p(d) + const.
        terms: the number of words of the model; their probabilities sum to 1.
    """
    weights = np.exp(best.values - best.values.max(initial=-np.inf))
    p = np.zeros(len(index.words))
    for document, weight in zip(best.documents, weights / weights.sum(), strict=True):
        text = index.tokens[index.offsets[document] : index.offsets[document + 1]]
        p += np.bincount(text, minlength=len(p)) * weight / len(text)
    likeliest = np.argsort(-p, kind="stable")[:terms]
    likeliest = likeliest[p[likeliest] > 0]
    return dict(zip(likeliest.tolist(), (p[likeliest] / p[likeliest].sum()).tolist(), strict=True))


def score(index: Index, query: Sequence[int], options: RankingOptions, prior: np.ndarray) -> Scores:
    """The scores of the documents that have a word of the query.

    A score is log p(q|d) p(d). With feedback it is that of RM3 (Abdul-Jaleel et al. 2004), a weighted sum, where |q| is
    the number of the query's words:

        weight · log p(q|d) + (1 − weight) |q| Σ_w p(w|R) log p(w|d) + log p(d)

    Args:
        prior: (N,) log p(d) + const.
    """
    documents = index.documents_with(query)
    scores = Scores(documents, log_likelihood(index, query, options, documents) + prior[documents])
    if not options.feedback or not len(documents):
        return scores
    model = relevance_model(index, scores.best(options.feedback), options.terms)
    documents = index.documents_with([*query, *model])
    likelihood = log_likelihood(index, query, options, documents)
    expected = expected_log(index, model, options, documents)
    expanded = options.weight * likelihood + (1 - options.weight) * len(query) * expected
    return Scores(documents, expanded + prior[documents])
