"""The trigram tagger TnT (Brants 2000, https://aclanthology.org/A00-1031): a second-order HMM."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from lmzoo.core.memory import require_memory
from lmzoo.core.options import Depth, Options, Size, configured
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import FEWER, Labeller, labellers

LEAST = 1e-3
"""Tags of an unknown word below this fraction of the largest probability are not considered (Brants's beam)."""

SINGLE = 1e-6
"""The least weight of the relative frequencies of single tags, without which some sentences have probability 0."""


def deleted_interpolation(single: np.ndarray, double: np.ndarray, triple: np.ndarray) -> np.ndarray:
    """The weights (3,) of uni-, bi- and trigram relative frequencies, from counts (K,), (K, K), (K, K, K).

    Each trigram votes with its count for the order that best predicts its last tag when left out (Figure 1).
    """
    a, b, c = np.nonzero(triple)
    counts = triple[a, b, c]
    above = np.stack([single[c], double[b, c], counts]) - 1
    below = np.stack([np.full_like(counts, single.sum()), double.sum(1)[b], triple.sum(2)[a, b]]) - 1
    shares = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    return np.bincount(shares.argmax(0), counts, minlength=3) / counts.sum()


def transitions(rows: Sequence[Sequence[int]], size: int) -> np.ndarray:
    """log p(c | a, b), (K, K, K), interpolated over three orders; each row starts with two boundary tags.

    A context that was not observed uses only the lower orders.
    """
    triple = np.zeros((size,) * 3)
    for row in rows:
        np.add.at(triple, (row[:-2], row[1:-1], row[2:]), 1)
    double = triple.sum(0)
    single = double.sum(0)
    weights = np.maximum(deleted_interpolation(single, double, triple), [SINGLE, 0, 0])
    mixed = np.zeros_like(triple)
    for weight, counts in zip(weights, (single, double, triple), strict=True):
        sums = counts.sum(-1, keepdims=True)
        mixed += weight * np.divide(counts, sums, out=np.zeros_like(counts), where=sums > 0)
    with np.errstate(divide="ignore"):
        return np.log(mixed)


def viterbi(scores: np.ndarray, candidates: Sequence[tuple[np.ndarray, np.ndarray]], edge: int) -> list[int]:
    """The best path of a second-order model.

    Args:
        scores: log p(c | a, b), (K, K, K).
        candidates: for each word, the states considered, and log p(word | state).
        edge: the boundary state, twice before the first word, and after the last.
    """
    before, last = np.array([edge]), np.array([edge])
    best = np.zeros((1, 1))
    back = []
    for states, emitted in [*candidates, (np.array([edge]), np.zeros(1))]:
        paths = best[:, :, None] + scores[np.ix_(before, last, states)]
        back.append(paths.argmax(0))
        best = paths.max(0) + emitted
        before, last = last, states
    i, j = int(best[:, 0].argmax()), 0
    path = []
    for k in range(len(candidates) - 1, -1, -1):  # i is the index of the state of word k among its candidates
        path.append(int(candidates[k][0][i]))
        i, j = int(back[k + 1][i, j]), i
    return path[::-1]


class Suffixes:
    """p(tag | suffix of a word), where each suffix is interpolated with the next shorter one (equations 7 to 10)."""

    def __init__(self, counts: Mapping[str, np.ndarray], longest: int, theta: float):
        """``counts``: (K,) counts of tags by word."""
        self.longest, self.theta = longest, theta
        self.counts: dict[str, np.ndarray] = {}
        for word, counted in counts.items():
            for ending in self._endings(word):
                self.counts[ending] = self.counts.get(ending, 0) + counted

    def _endings(self, word: str) -> Iterator[str]:
        """The suffixes of a word, shortest first."""
        word = re.sub(r"\d", "0", word)
        yield from (word[len(word) - n :] for n in range(min(self.longest, len(word)) + 1))

    def shares(self, word: str) -> np.ndarray:
        """p(tag | word), (K,)."""
        shares = self.counts[""] / self.counts[""].sum()
        for ending in self._endings(word):
            if ending not in self.counts:
                break
            counted = self.counts[ending]
            shares = (counted / counted.sum() + self.theta * shares) / (1 + self.theta)
        return shares


class HmmTaggerOptions(Options):
    rare: Size = 10
    """suffixes are counted in words with at most this count in train."""
    suffix: Depth = 5
    """maximum suffix length in letters; 10 in Brants."""


@labellers.register("hmm_tagger")
class HmmTagger(Labeller):
    """TnT: states are pairs of tag and capitalization; unknown words are scored by their suffixes."""

    saved = ("states", "counts", "scores")

    @configured(HmmTaggerOptions)
    def __init__(self, options: HmmTaggerOptions):
        self.rare, self.suffix = options.rare, options.suffix

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        pairs = [[(label, word[:1].isupper()) for word, label in zip(s.words, s.labels, strict=True)]
                 for s in sentences]  # fmt: skip
        states = sorted({pair for row in pairs for pair in row})
        number = {state: i for i, state in enumerate(states)}
        edge = len(number)
        require_memory(3 * 8 * (edge + 1) ** 3, f"labeller=hmm_tagger: the trigrams of {edge:,} states", FEWER)
        rows = [[edge, edge, *(number[pair] for pair in row), edge] for row in pairs]
        counts: dict[str, Counter[int]] = defaultdict(Counter)
        for sentence, row in zip(sentences, rows, strict=True):
            for word, state in zip(sentence.words, row[2:-1], strict=True):
                counts[word][state] += 1
        self.states, self.scores = states, torch.from_numpy(transitions(rows, edge + 1))
        self.counts = {word: [*zip(*counted.items(), strict=True)] for word, counted in counts.items()}
        """The states of each word, and their counts."""
        self._learn()

    def _learn(self) -> None:
        """Compute the tables from what is saved."""
        counts = dict(zip(self.counts, np.zeros((len(self.counts), len(self.states))), strict=True))
        for word, (of_word, times) in self.counts.items():
            counts[word][[*of_word]] = times
        self.totals = sum(counts.values(), np.zeros(len(self.states)))
        self.emissions = {word: self._emitted(counted) for word, counted in counts.items()}
        by_label: dict[str, float] = defaultdict(float)
        for (label, _), total in zip(self.states, self.totals.tolist(), strict=True):
            by_label[label] += total
        theta = float(np.std(np.array(list(by_label.values())) / self.totals.sum(), ddof=min(1, len(by_label) - 1)))
        self.endings = {}
        for capital in (False, True):
            of_case = {word: counted for word, counted in counts.items() if word[:1].isupper() == capital}
            rare = {word: counted for word, counted in of_case.items() if counted.sum() <= self.rare}
            if of_case:
                self.endings[capital] = Suffixes(rare or of_case, self.suffix, theta)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self._learn()

    def _emitted(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The states of a word, and log p(word | state) up to a constant, from counts or frequencies (K,) of states."""
        (states,) = np.nonzero(weights > LEAST * weights.max())
        return states, np.log(weights[states] / self.totals[states])

    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        unseen = {}
        for word in {word for sentence in sentences for word in sentence.words} - self.emissions.keys():
            endings = self.endings.get(word[:1].isupper()) or next(iter(self.endings.values()))
            unseen[word] = self._emitted(endings.shares(word))
        candidates = ([self.emissions.get(word) or unseen[word] for word in sentence.words] for sentence in sentences)
        paths = (viterbi(self.scores.numpy(), row, len(self.states)) for row in candidates)
        return [[self.states[state][0] for state in path] for path in paths]
