"""Linear chains: log Z, best labels and k best labellings, by the inference of hidden Markov models.

Lafferty, McCallum & Pereira, "Conditional random fields", ICML 2001. Labels y of a sentence of T words have the score
s(y) = a(y_1) + Σ_t e_t(y_t) + Σ_t A(y_{t-1}, y_t), and p(y | x) = exp(s(y)) / Z. The scores may be any numbers; those
of a hidden Markov model are log-probabilities, in the same recursions.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.models.hmm.inference import dense, paths

MOST_BEGINNINGS = 1 << 27
"""The maximum number of paths that `k_best` stores, at four bytes each."""


class Scores(NamedTuple):
    """The scores of B sentences of at most T words, with K labels."""

    emission: Tensor
    """(B, T, K) e_t; arbitrary on padding."""
    moves: Tensor
    """(K, K) A, scores of transitions between labels."""
    start: Tensor
    """(K,) a."""
    lengths: Tensor
    """(B,) int64, at least 1."""

    def inside(self) -> Tensor:
        """(B, T) bool, False on padding."""
        return torch.arange(self.emission.shape[1], device=self.lengths.device) < self.lengths[:, None]


def log_partition(scores: Scores) -> Tensor:
    """(B,) log Z, whose gradient is the expected counts, by `dense.forward` on scores shifted to be at most 0."""
    emission, moves, start, _ = scores
    tops = emission.detach().amax(2)
    largest, first = moves.detach().amax(), start.detach().amax()
    prior = (start - first).expand(len(emission), -1)
    steps, _ = dense.forward(prior, moves - largest, emission - tops[:, :, None])
    return first + (steps + tops + largest).where(scores.inside(), 0.0).sum(1) - largest


def score(scores: Scores, labels: Tensor) -> Tensor:
    """(B,) s(y) of (B, T) labels, arbitrary on padding."""
    emission, moves, start, _ = scores
    each = emission.gather(2, labels[:, :, None])[:, :, 0]
    steps = torch.cat([start[labels[:, :1]], moves[labels[:, :-1], labels[:, 1:]]], 1)
    return (each + steps).where(scores.inside(), 0.0).sum(1)


def chain(scores: Scores) -> paths.Chain:
    """The same chain with a first step from a certain state 0, for `paths.viterbi` and `posterior`."""
    emission, moves, start, _ = scores
    B, T, K = emission.shape
    certain = emission.new_full((B, K), -torch.inf)
    certain[:, 0] = 0
    pair = emission.new_ones(B, T, dtype=torch.int64)
    pair[:, 0] = 0
    tiles = torch.stack([start.expand(K, K), moves])
    return paths.Chain(
        certain, tiles, pair, emission, torch.zeros_like(pair), torch.arange(K, device=emission.device)[None]
    )


def best(scores: Scores) -> list[list[int]]:
    """The labels with the highest score of each sentence."""
    labels, _ = paths.viterbi(chain(scores), scores.lengths)
    return [row[:length] for row, length in zip(labels.tolist(), scores.lengths.tolist(), strict=True)]


@torch.no_grad()
def k_best(emission: Tensor, moves: Tensor, start: Tensor, k: int) -> list[tuple[float, list[int]]]:
    """The k paths with the highest scores in falling order, or all if there are fewer; emission (T, K).

    Each label retains its k best prefixes (Schwartz & Chow 1990).

    Raises: UserError if the prefixes of all words exceed `MOST_BEGINNINGS`.
    """
    T, K = emission.shape
    if min(k, K ** min(T, 64)) * K * T > MOST_BEGINNINGS:
        most = MOST_BEGINNINGS // (K * T)
        raise UserError(
            f"a sentence of {T:,} words and {K} labels has at most {most:,} labellings in memory",
            "ask for fewer by --top",
        )
    top = (start + emission[0])[None]  # (n, K), the scores of n prefixes of each label
    origins = []
    for now in emission[1:]:
        n = len(top)
        every = (top[:, :, None] + moves).flatten(0, 1)  # (n K, K)
        top, origin = every.topk(min(k, n * K), dim=0)
        top = top + now
        origins.append(origin.int())
    values, places = top.flatten().topk(min(k, top.numel()))
    best = []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        path = [place]
        for origin in reversed(origins):
            path.append(int(origin[path[-1] // K, path[-1] % K]))
        best.append((value, [state % K for state in path[::-1]]))
    return best


def batches(lengths: Sequence[int], words: int) -> Iterator[list[int]]:
    """Group the indices of sentences of similar length, with about ``words`` words and padding per batch."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[number] > words:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
