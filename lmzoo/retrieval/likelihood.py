"""The likelihood of a query under a language model of each document (Ponte & Croft 1998).

Unigrams have two-stage smoothing (Zhai & Lafferty 2002, eq. 6), with the collection as the background of queries:

    p(w|d) = (1 − λ) (c(w, d) + μ p(w|C)) / (|d| + μ) + λ p(w|C)

It is the Dirichlet prior of Zhai & Lafferty (2001, Table I) where λ = 0, and Jelinek-Mercer where μ = 0. A longer
history h backs off to the shorter h′ by a Dirichlet prior of its own (MacKay & Peto 1995):

    p(w|h, d) = (c(hw, d) + ν p(w|h′, d)) / (Σ_v c(hv, d) + ν)
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from lmzoo.core.errors import UserError
from lmzoo.core.options import Bounds, Count, Depth, Probability, Size, check
from lmzoo.retrieval.index import Index, Scores


@dataclass(frozen=True, kw_only=True)
class RankingOptions:
    """How documents are scored; the last part of a type is the description.

    Raises: UserError for a value that cannot be.
    """

    mu: Annotated[float, Bounds(low=0, high=1e12), "pseudocounts of the Dirichlet prior; 0: Jelinek-Mercer only"] = (
        200.0
    )
    lambda_: Annotated[
        Probability, "weight of the collection in Jelinek-Mercer and two-stage smoothing; 0: Dirichlet only"
    ] = 0.0
    order: Annotated[Depth, "order of the document's n-gram model"] = 1
    nu: Annotated[float, Bounds(low=1e-6, high=1e12), "pseudocounts of the prior of bigrams and longer n-grams"] = 10.0
    feedback: Annotated[Count, "number of feedback documents for query expansion (RM3); 0: none"] = 0
    terms: Annotated[Size, "number of expansion terms"] = 50
    weight: Annotated[Probability, "weight of the original query in the expanded query"] = 0.5

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
    index: Index, grams: Mapping[tuple[int, ...], float], options: RankingOptions, documents: np.ndarray
) -> np.ndarray:
    """(n,) Σ_hw weight(hw) log p(w|h, d) in nats of n-grams in some documents.

    For a single word w, only the documents that have it are visited: p(w|d) is b(d) p(w|C) with b(d) = (1 − λ) μ /
    (|d| + μ) + λ where d does not have w, and else that times 1 + (1 − λ) c(w, d) / ((μ + λ |d|) p(w|C)).
    """
    mu, lambda_ = options.mu, options.lambda_
    words = {gram[0]: weight for gram, weight in grams.items() if len(gram) == 1}
    weight, share = np.array([*words.values()]), np.array([index.share(word) for word in words])
    visited, counts, word = index.postings([*words])
    gain = weight[word] * np.log1p((1 - lambda_) * counts / ((mu + lambda_ * index.lengths[visited]) * share[word]))
    gain = np.bincount(visited, gain, minlength=len(index.names))[documents]
    log_b = np.log((1 - lambda_) * mu / _lengths(index, mu)[documents] + lambda_)
    longer = (n * np.log(probability(index, gram, options)[documents]) for gram, n in grams.items() if len(gram) > 1)
    return sum(longer, gain + weight.sum() * log_b + weight @ np.log(share))


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
    grams = Counter(tuple(query[max(0, end - options.order) : end]) for end in range(1, len(query) + 1))
    documents = index.documents_with(query)
    scores = Scores(documents, log_likelihood(index, grams, options, documents) + prior[documents])
    if not options.feedback or not len(documents):
        return scores
    model = relevance_model(index, scores.best(options.feedback), options.terms)
    expanded = defaultdict(float, {gram: options.weight * n for gram, n in grams.items()})
    for word, p in model.items():
        expanded[word,] += (1 - options.weight) * len(query) * p
    documents = index.documents_with([*query, *model])
    return Scores(documents, log_likelihood(index, expanded, options, documents) + prior[documents])
