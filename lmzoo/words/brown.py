"""Word classes of maximal average mutual information (Brown et al. 1992), found by annealed exchange.

A class bigram model p(w | v) = p(c_w | c_v) p(w | c_w), set by relative frequencies, gives a text of N
tokens the log-likelihood N · I(c; c′) + const, so good classes are those whose average mutual information

    I = Σ_{c,c′} n(c, c′)/N · log( N n(c, c′) / (n(c) n(c′)) )                 (Brown et al. 1992, eq. 10)

is large. The exchange algorithm (Kneser & Ney 1993; Martin, Liermann & Ney 1998, §2.2) takes a word out of
its class and puts it where N·I is largest, word after word, until nothing moves. Ours starts with sweeps
in which the place is drawn with probability ∝ exp(N·I / temperature), while the temperature falls to zero.

Bigrams are those of the text as one circle: `<eos>` closes every line, so it follows a line's last word
and precedes the next line's first, and no two words of different lines are neighbours. Both margins of
the bigram counts are then the word counts.
"""

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus.vocabulary import EOS_ID

ANNEALING_SWEEPS = 20
START_TEMPERATURE = 0.2
"""In nats, per occurrence of an average word: a word's stake in N·I grows with its count."""


class Exchange:
    """A partition of words into C classes, and what each exchange would do to it.

    Attributes:
        word_class: (V,) the class of each word.
        members: (C,) the number of words of each class that the text has.
        counts: (C,) n(c).
        bigrams: (2C, C); its rows 0 … C-1 are n(c, c′) with the *following* class c′ as the row, its rows
            C … 2C-1 with the *preceding* class c as the row; the column is the other class.
    """

    def __init__(self, tokens: np.ndarray, vocabulary_size: int, classes: int):
        V, C = vocabulary_size, classes
        previous = np.roll(tokens, 1)
        pairs, n = np.unique(previous * V + tokens, return_counts=True)
        v, w = pairs // V, pairs % V
        self.word_counts = np.bincount(tokens, minlength=V)
        self.repeats = np.zeros(V, dtype=np.int64)  # n(w, w), which moves with w on both sides
        self.repeats[v[v == w]] = n[v == w]
        v, w, n = v[v != w], w[v != w], n[v != w]

        # each word's neighbours, followers and predecessors together, between two offsets
        word, order = np.concatenate([v, w]), np.argsort(np.concatenate([v, w]), kind="stable")
        self.offsets = np.searchsorted(word[order], np.arange(V + 1))
        self.neighbours = np.concatenate([w, v])[order]
        self.neighbour_counts = np.concatenate([n, n])[order]
        self.sides = np.repeat([0, C], len(n))[order]

        self.by_frequency = np.argsort(-self.word_counts, kind="stable")[: np.count_nonzero(self.word_counts)]
        self.word_class = np.full(V, C - 1)
        self.word_class[self.by_frequency[:C]] = np.arange(C)
        self.members = np.bincount(self.word_class[self.by_frequency], minlength=C)
        self.counts = np.bincount(self.word_class[tokens], minlength=C)
        pairs = self.word_class[previous] * C + self.word_class[tokens]
        forward = np.bincount(pairs, minlength=C * C).reshape(C, C)
        self.bigrams = np.concatenate([forward.T, forward])
        x = np.arange(len(tokens) + 1)
        self.xlogx = x * np.log(np.maximum(x, 1))

    def context(self, word: int) -> np.ndarray:
        """(2C,) how often each class follows, then how often each precedes, a word other than itself."""
        i, j = self.offsets[word], self.offsets[word + 1]
        classes = self.word_class[self.neighbours[i:j]] + self.sides[i:j]
        return np.bincount(classes, self.neighbour_counts[i:j], minlength=len(self.bigrams)).astype(np.int64)

    def add(self, word: int, context: np.ndarray, to: int, sign: int = 1) -> None:
        """Put a word that is in no class into one, or (sign -1) take it out."""
        C = len(self.counts)
        repeats = sign * self.repeats[word]
        self.bigrams[:, to] += sign * context
        self.bigrams[C + to] += sign * context[:C]
        self.bigrams[to] += sign * context[C:]
        self.bigrams[to, to] += repeats
        self.bigrams[C + to, to] += repeats
        self.counts[to] += sign * self.word_counts[word]
        self.members[to] += sign

    def gains(self, word: int, context: np.ndarray) -> np.ndarray:
        """(C,) change of N·I in nats if a word that is in no class were put into each.

        N·I = Σ f(n(c, c′)) - 2 Σ f(n(c)) + f(N) with f(x) = x log x: only the row, the column and the
        margin of the class change, and of those only where the word has neighbours.
        """
        f, C = self.xlogx, len(self.counts)
        seen = context.nonzero()[0]
        before = self.bigrams[seen]  # (neighbouring classes, C)
        gains = (f[before + context[seen, None]] - f[before]).sum(0)
        # n(c, c) lies in both row and column, and takes both sides' counts and the repeats at once
        loops, after, ahead = self.bigrams.diagonal(), context[:C], context[C:]
        gains += f[loops + after + ahead + self.repeats[word]] - f[loops + after] - f[loops + ahead] + f[loops]
        return gains - 2 * (f[self.counts + self.word_counts[word]] - f[self.counts])

    def sweep(self, temperature: float, random: np.random.Generator) -> int:
        """Exchange every word in turn, the most frequent first; the number of words that moved.

        At temperature 0 a word moves only where that raises N·I. The last word of a class stays.
        """
        moved = 0
        for word in self.by_frequency.tolist():
            home = int(self.word_class[word])
            if self.members[home] == 1:
                continue
            context = self.context(word)
            self.add(word, context, home, -1)
            gains = self.gains(word, context)
            if temperature > 0:
                gains += temperature * random.gumbel(size=len(gains))
            else:
                gains[home] += 1e-4  # nats of the whole text: rounding must not make a word move for ever
            best = int(gains.argmax())
            self.add(word, context, best)
            self.word_class[word] = best
            moved += best != home
        return moved

    def anneal(self, random: np.random.Generator) -> None:
        """Sweep while the temperature falls linearly to 0, then until no word moves."""
        start = START_TEMPERATURE * self.counts.sum() / len(self.by_frequency)
        for temperature in np.linspace(start, 0, ANNEALING_SWEEPS, endpoint=False):
            self.sweep(temperature, random)
        while self.sweep(0, random):
            pass


def brown_clusters(tokens: Tensor, vocabulary_size: int, clusters: int) -> Tensor:
    """Cluster words by the classes of their neighbours; always the same clusters for the same text.

    Args:
        tokens: (N,) int64 text, each line closed by `<eos>` (word 0).
        vocabulary_size: V.
        clusters: C; no cluster will be empty.

    Returns:
        (V,) int64 cluster of each word, 0 … C-1. The last cluster is that of `<eos>`, and has the words
        that the text does not.

    Raises: UserError for fewer clusters than one or more than the text has different words.
    """
    different = len(tokens.unique())
    if not 1 <= clusters <= different:
        raise UserError(f"{clusters} clusters: must be 1 to {different}, the number of different words in the text")
    exchange = Exchange(tokens.cpu().numpy(), vocabulary_size, clusters)
    exchange.anneal(np.random.default_rng(0))
    classes = exchange.word_class
    classes[exchange.word_counts == 0] = classes[EOS_ID]
    return torch.from_numpy((classes - classes[EOS_ID] - 1) % clusters).to(tokens.device)


def average_mutual_information(tokens: Tensor, clusters_of_word: Tensor) -> float:
    """Average mutual information in nats of adjacent clusters (Brown et al. 1992, §3).

    Args:
        tokens: (N,) int64 text, each line closed by `<eos>`; see the module for its bigrams.
        clusters_of_word: (V,) int64.
    """
    clusters = int(clusters_of_word.max()) + 1
    c = clusters_of_word[tokens]  # (N,)
    joint = torch.bincount(c.roll(1) * clusters + c, minlength=clusters**2).view(clusters, clusters)
    joint = joint.double() / len(c)

    def entropy(p: Tensor) -> Tensor:
        return -torch.xlogy(p, p).sum()

    return float(entropy(joint.sum(0)) + entropy(joint.sum(1)) - entropy(joint))
