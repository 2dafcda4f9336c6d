"""Word clusters of maximal average mutual information (Brown et al. 1992), found by annealed exchange.

A class bigram model p(w | v) = p(c_w | c_v) p(w | c_w), where c_w is the cluster of w, is set by relative frequencies.
Its log-likelihood of a text of N tokens is N · I(c; c′) + const. So good clusters have a large average mutual
information

    I = Σ_{c,c′} n(c, c′)/N · log( N n(c, c′) / (n(c) n(c′)) )                 (Brown et al. 1992, eq. 10)

The exchange algorithm (Kneser & Ney 1993; Martin, Liermann & Ney 1998, §2.2) takes a word out of its cluster and puts
it where N·I is largest, word after word, until no word moves. Here it begins with sweeps that draw the new cluster
with probability ∝ exp(N·I / temperature), while the temperature falls to zero.

The bigrams are those of the text as one circle. `<eos>` closes every line, so it follows a line's last word and
precedes the next line's first word, and no two words of different lines are neighbours. Both margins of the bigram
counts are then the word counts.
"""

from typing import Literal

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.disk_cache import disk_cached
from lmzoo.core.errors import UserError
from lmzoo.core.progress import tracked
from lmzoo.corpus.vocabulary import EOS_ID

VERSION = 1
"""A part of the key on disk. Raise it with every change of the clusters that `brown_clusters` finds."""

ANNEALING_SWEEPS = 20
START_TEMPERATURE = 0.2
"""In nats per occurrence of an average word, since a word's part of N·I grows with its count."""


class Exchange:
    """A partition of words into C clusters, and the gain of each exchange.

    Attributes:
        cluster: (V,) the cluster of each word.
        members: (C,) the number of words in each cluster, without those that the text lacks.
        counts: (C,) n(c).
        bigrams: (2C, C) n(c, c′). In rows 0 … C-1 the row is the *following* cluster c′, in rows C … 2C-1 the row is
            the *preceding* cluster c. The column is the other cluster.
    """

    def __init__(self, tokens: np.ndarray, vocabulary_size: int, clusters: int):
        V, C = vocabulary_size, clusters
        previous = np.roll(tokens, 1)
        pairs, n = np.unique(previous * V + tokens, return_counts=True)
        v, w = pairs // V, pairs % V
        self.word_counts = np.bincount(tokens, minlength=V)
        self.repeats = np.zeros(V, dtype=np.int64)  # n(w, w), which moves with w on both sides
        self.repeats[v[v == w]] = n[v == w]
        v, w, n = v[v != w], w[v != w], n[v != w]

        # The neighbours of a word, followers and predecessors together, are between two offsets.
        word, order = np.concatenate([v, w]), np.argsort(np.concatenate([v, w]), kind="stable")
        self.offsets = np.searchsorted(word[order], np.arange(V + 1))
        self.neighbours = np.concatenate([w, v])[order]
        self.neighbour_counts = np.concatenate([n, n])[order]
        self.sides = np.repeat([0, C], len(n))[order]

        self.by_frequency = np.argsort(-self.word_counts, kind="stable")[: np.count_nonzero(self.word_counts)]
        self.cluster = np.full(V, C - 1)
        self.cluster[self.by_frequency[:C]] = np.arange(C)
        self.members = np.bincount(self.cluster[self.by_frequency], minlength=C)
        self.counts = np.bincount(self.cluster[tokens], minlength=C)
        pairs = self.cluster[previous] * C + self.cluster[tokens]
        forward = np.bincount(pairs, minlength=C * C).reshape(C, C)
        self.bigrams = np.concatenate([forward.T, forward])
        x = np.arange(len(tokens) + 1)
        self.xlogx = x * np.log(np.maximum(x, 1))

    def neighbourhood(self, word: int) -> np.ndarray:
        """(2C,) how often each cluster follows a word, then how often each precedes it; the word itself not counted."""
        i, j = self.offsets[word], self.offsets[word + 1]
        clusters = self.cluster[self.neighbours[i:j]] + self.sides[i:j]
        return np.bincount(clusters, self.neighbour_counts[i:j], minlength=len(self.bigrams)).astype(np.int64)

    def add(self, word: int, near: np.ndarray, to: int, sign: int = 1) -> None:
        """Put a word, whose (2C,) `neighbourhood` is ``near``, into a cluster or, by sign -1, take it out."""
        C = len(self.counts)
        repeats = sign * self.repeats[word]
        self.bigrams[:, to] += sign * near
        self.bigrams[C + to] += sign * near[:C]
        self.bigrams[to] += sign * near[C:]
        self.bigrams[to, to] += repeats
        self.bigrams[C + to, to] += repeats
        self.counts[to] += sign * self.word_counts[word]
        self.members[to] += sign

    def gains(self, word: int, near: np.ndarray) -> np.ndarray:
        """(C,) change of N·I in nats if a word, whose (2C,) `neighbourhood` is ``near``, were put into each cluster.

        N·I = Σ f(n(c, c′)) - 2 Σ f(n(c)) + f(N) with f(x) = x log x. Only the row, the column and the margin of the
        cluster change. The row and the column change only where the word has neighbours.
        """
        f, C = self.xlogx, len(self.counts)
        seen = near.nonzero()[0]
        before = self.bigrams[seen]  # (neighbouring clusters, C)
        gains = (f[before + near[seen, None]] - f[before]).sum(0)
        # n(c, c) is in both the row and the column. It takes the counts of both sides and the repeats at once.
        loops, after, ahead = self.bigrams.diagonal(), near[:C], near[C:]
        gains += f[loops + after + ahead + self.repeats[word]] - f[loops + after] - f[loops + ahead] + f[loops]
        return gains - 2 * (f[self.counts + self.word_counts[word]] - f[self.counts])

    def sweep(self, temperature: float, random: np.random.Generator) -> int:
        """Exchange each word, the most frequent first; returns how many moved. The last word of a cluster stays."""
        moved = 0
        for word in self.by_frequency.tolist():
            home = int(self.cluster[word])
            if self.members[home] == 1:
                continue
            near = self.neighbourhood(word)
            self.add(word, near, home, -1)
            gains = self.gains(word, near)
            if temperature > 0:
                gains += temperature * random.gumbel(size=len(gains))
            else:
                gains[home] += 1e-4  # nats of the whole text; else rounding could make a word move for ever
            best = int(gains.argmax())
            self.add(word, near, best)
            self.cluster[word] = best
            moved += best != home
        return moved

    def anneal(self, random: np.random.Generator) -> None:
        """Sweep while the temperature falls linearly to 0, then until no word moves."""
        start = START_TEMPERATURE * self.counts.sum() / len(self.by_frequency)
        temperatures = np.linspace(start, 0, ANNEALING_SWEEPS, endpoint=False)
        for temperature in tracked(temperatures, len(temperatures), "sweep", "Brown clusters"):
            self.sweep(temperature, random)
        while self.sweep(0, random):
            pass


def brown_clusters(tokens: Tensor, vocabulary_size: int, clusters: int, option: str = "clusters") -> Tensor:
    """Cluster words by the clusters of their neighbours; the same text always has the same clusters.

    Args:
        tokens: (N,) text, each line closed by `<eos>` (word 0).
        vocabulary_size: V.
        clusters: C; no cluster is empty.
        option: the name of C in an error.

    Returns:
        (V,) int64 cluster of each word, 0 … C-1. `<eos>` is in the last cluster, and so is every word that the text
        lacks.

    Raises: UserError if C is below one or above the number of different words in the text.
    """
    different = len(tokens.unique())
    if not 1 <= clusters <= different:
        raise UserError(f"{option}={clusters}: must be 1 to {different}, the number of different words in the text")
    exchange = Exchange(tokens.cpu().long().numpy(), vocabulary_size, clusters)
    exchange.anneal(np.random.default_rng(0))
    cluster = exchange.cluster
    cluster[exchange.word_counts == 0] = cluster[EOS_ID]
    return torch.from_numpy((cluster - cluster[EOS_ID] - 1) % clusters).to(tokens.device)


def average_mutual_information(tokens: Tensor, cluster: Tensor) -> float:
    """Average mutual information in nats of adjacent (V,) clusters of a (N,) text (Brown et al. 1992, §3)."""
    clusters = int(cluster.max()) + 1
    c = cluster[tokens]  # (N,)
    joint = torch.bincount(c.roll(1) * clusters + c, minlength=clusters**2).view(clusters, clusters)
    joint = joint.double() / len(c)

    after, before, both = (torch.special.entr(p).sum() for p in (joint.sum(0), joint.sum(1), joint))
    return float(after + before - both)


def cached_brown_clusters(tokens: Tensor, vocabulary_size: int, clusters: int, option: str = "clusters") -> Tensor:
    """`brown_clusters`, cached on disk by `disk_cached`."""
    tokens = tokens.long()  # words times words exceed int32
    key = f"{VERSION} {vocabulary_size} {clusters} ".encode() + tokens.cpu().numpy().tobytes()

    def compute() -> bytes:
        return brown_clusters(tokens, vocabulary_size, clusters, option).cpu().numpy().astype("<i8").tobytes()

    return torch.from_numpy(np.frombuffer(disk_cached("brown", key, compute), dtype="<i8").copy()).to(tokens.device)


Clustering = Literal["brown", "uniform", "frequency"]


def word_clusters(
    clustering: Clustering, tokens: Tensor, vocabulary_size: int, clusters: int, option: str = "model.clusters"
) -> Tensor:
    """(V,) int64 cluster of each word; no cluster is empty.

    Args:
        clustering: ``brown``, clusters of maximal average mutual information (Brown et al. 1992); ``uniform``, clusters
            of equal size, drawn from PyTorch's generator; ``frequency``, clusters of about equal counts, the most
            frequent words in the first (Mikolov et al. 2011).
        tokens: (N,) int64 text, each line closed by `<eos>` (word 0).
        vocabulary_size: V.
        clusters: their number.
        option: its name in an error.

    Raises: UserError for ``brown``, if the text has fewer different words than there are clusters.
    """
    if clustering == "brown":
        return cached_brown_clusters(tokens, vocabulary_size, clusters, option)
    if clustering == "uniform":
        return (torch.randperm(vocabulary_size) % clusters).to(tokens.device)
    return frequency_clusters(tokens.bincount(minlength=vocabulary_size), clusters)


def frequency_clusters(counts: Tensor, clusters: int) -> Tensor:
    """(V,) counts -> (V,) clusters, filled one after another; each has its share of what the earlier ones have left."""
    cluster_of = torch.empty_like(counts)
    cluster, filled, left = 0, 0, int(counts.sum())
    for word in counts.argsort(descending=True, stable=True).tolist():
        cluster_of[word] = cluster
        filled += int(counts[word])
        if cluster < clusters - 1 and filled * (clusters - cluster) >= left:
            cluster, filled, left = cluster + 1, 0, left - filled
    return cluster_of
