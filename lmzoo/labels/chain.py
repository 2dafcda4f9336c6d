"""Linear chains: log Z and best labels, by the inference of hidden Markov models.

Lafferty, McCallum & Pereira, "Conditional random fields", ICML 2001. Labels y of a sentence of T words have the score
s(y) = a(y_1) + Σ_t e_t(y_t) + Σ_t A(y_{t-1}, y_t), and p(y | x) = exp(s(y)) / Z. The scores may be any numbers; those
of a hidden Markov model are log-probabilities, in the same recursions.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.models.hmm.inference import dense, paths


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
