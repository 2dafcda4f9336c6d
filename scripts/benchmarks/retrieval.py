"""Milliseconds of CPU time to rank documents for a query: postings, the sum over all documents, and bm25s.

    python scripts/benchmarks/retrieval.py

The words of 140,000 documents of 20 to 99 words and of queries of 8 are drawn by Zipf's law, the queries without the
100 commonest, as a list of stop words leaves them. One thread, in turns, medians of five; needs `pip install bm25s`.
"""

import time
from collections import Counter
from collections.abc import Callable

import bm25s
import numpy as np
from ngram import zipf

from lmzoo.retrieval.index import Index
from lmzoo.retrieval.likelihood import RankingOptions, probability, ranked, score

DOCUMENTS, WORDS, STOP, QUERIES, DEPTH = 140_000, 100_000, 100, 50, 1000
OPTIONS = RankingOptions(mu=200.0, lambda_=0.0, order=1, nu=10.0, feedback=0, terms=50, weight=0.5)


def dense(index: Index, query: list[int]) -> list[tuple[str, float]]:
    """The ranking by a sum over all documents for each word, and a sort of them all."""
    grams = Counter(query)
    scores = np.add.reduce([n * np.log(probability(index, [word], OPTIONS)) for word, n in grams.items()])
    has = np.any([index.count([word]) for word in grams], axis=0)
    best = np.argsort(-np.where(has, scores, -np.inf), kind="stable")[:DEPTH]
    return [(index.names[d], float(scores[d])) for d in best if has[d]]


def milliseconds(rank: Callable[[list[int]], object], queries: list[list[int]]) -> float:
    """CPU time of a query."""
    begin = time.process_time()
    for query in queries:
        rank(query)
    return 1000 * (time.process_time() - begin) / len(queries)


def main() -> None:
    """Print a line for each way, and the largest difference of a score."""
    random = np.random.default_rng(0)
    lengths = random.integers(20, 100, DOCUMENTS)
    drawn = zipf(random.random(lengths.sum()), WORDS)
    drawn = drawn[drawn >= STOP].astype(str).tolist()
    ends = np.cumsum(lengths * 0.6).astype(int)
    texts = [drawn[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    index = Index.of({str(number): text for number, text in enumerate(texts)})
    queries = [index.numbers(zipf(random.uniform(0.42, 1, 8), WORDS).astype(str).tolist()) for _ in range(QUERIES)]
    names, peer = [*index.words], bm25s.BM25()
    peer.index(texts, show_progress=False)
    prior = np.zeros(DOCUMENTS)

    def postings(query: list[int]) -> dict[str, float]:
        return ranked(index, score(index, query, OPTIONS, prior), DEPTH)

    worst = 0.0
    for query in queries:
        new, old = [*postings(query).items()], dense(index, query)
        worst = max(worst, max(abs(mine[1] - theirs[1]) for mine, theirs in zip(new, old, strict=True)))
    ways = {
        "lmzoo": postings,
        "all documents": lambda query: dense(index, query),
        "bm25s": lambda query: peer.retrieve([[names[word] for word in query]], k=DEPTH, show_progress=False),
    }
    times = [[milliseconds(rank, queries) for rank in ways.values()] for _ in range(5)]
    print("way,ms a query,least,most")
    for name, values in zip(ways, zip(*times, strict=True), strict=True):
        print(name, *(f"{value:.2f}" for value in (np.median(values), min(values), max(values))), sep=",")
    print(f"largest difference of a score: {worst:.1e}")


if __name__ == "__main__":
    main()
