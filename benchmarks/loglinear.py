"""Seconds a full-batch pass of the log-linear model takes, beside a dense softmax over the same features.

A pass is the log-likelihood and its gradient, here of bigrams. The dense one is PyTorch's: the scores of every
word after each context, `cross_entropy`, `backward`; both must agree. Run: ``python benchmarks/loglinear.py``.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.corpus import load_corpus
from lmzoo.loglinear import Level, log_likelihood, ngram_levels
from lmzoo.ngram_counts import count_ngrams

ROUNDS = 3


def seconds(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def dense_pass(tokens: Tensor, levels: list[Level], types: int) -> Callable[[], tuple[float, list[Tensor]]]:
    """Bigram features as a (V, V) table of scores, one row looked up for each token."""
    bigrams = levels[1]
    said, previous = tokens, torch.cat([tokens.new_zeros(1), tokens[:-1]])
    words = torch.arange(types)[bigrams.suffix]

    def work() -> tuple[float, list[Tensor]]:
        unigram = torch.zeros(types, dtype=torch.float64, requires_grad=True)
        bigram = torch.zeros(len(bigrams.counts), dtype=torch.float64, requires_grad=True)
        value = torch.zeros((), dtype=torch.float64)
        for x, h in zip(said.split(1000), previous.split(1000), strict=True):
            place = torch.full((types,), -1)
            rows = h.unique()
            place[rows] = torch.arange(len(rows))
            here = place[bigrams.context] >= 0
            table = unigram.expand(len(rows), -1).index_put(
                (place[bigrams.context[here]], words[here]), bigram[here], accumulate=True
            )
            logprob = -F.cross_entropy(table[place[h]], x, reduction="sum")
            logprob.backward()
            value += logprob.detach()
        return float(value), [unigram.grad, bigram.grad]

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="+", default=[10_000, 40_000])
    parser.add_argument("--types", type=int, nargs="+", default=[500, 2000])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("tokens   types  bigrams  dense s  ours s  ratio")
    for types in arguments.types:
        for size in arguments.tokens:
            options = {"states": 20, "words": types - 1, "sentence_length": 15, "concentration": 0.3, "seed": 1}
            corpus = load_corpus(
                {"name": "markov", "context": "sentence", "train": size, "valid": 100, "test": 100, **options}
            )
            levels = ngram_levels(count_ngrams(corpus.train, types, 2))
            weights = [torch.zeros_like(level.counts) for level in levels]
            dense = dense_pass(corpus.train, levels, types)
            expected, ours = dense(), log_likelihood(levels, weights)
            assert abs(expected[0] - ours[0]) < 1e-9 * abs(ours[0])
            for theirs, mine in zip(expected[1], ours[1], strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-7)
            slow, fast = seconds(dense), seconds(lambda: log_likelihood(levels, weights))  # noqa: B023 - called at once
            print(
                f"{len(corpus.train):6d} {types:7d} {len(weights[1]):8d} {slow:8.3f} {fast:7.4f} {slow / fast:6.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
