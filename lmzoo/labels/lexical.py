"""Lexical features of words for log-linear models."""

import logging
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from lmzoo.core.errors import UserError, error_prefix
from lmzoo.corpus.vocabulary import EOS, UNK
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import Saved
from lmzoo.numerics.sparse import SparseRows
from lmzoo.words.merging import read_paths

log = logging.getLogger(__name__)

T = TypeVar("T")

NUMBER = re.compile(r"[\d.,:/\\-]*\d[\d.,:/\\-]*")


def entry(word: str, table: Mapping[str, T]) -> T | None:
    """The value of a word in a table: as it is, in lower case, as N (a number in Penn Treebank), or as `<unk>`."""
    forms = [word, word.lower(), *(["N"] if NUMBER.fullmatch(word) else []), UNK]
    return next((table[form] for form in forms if form in table and form != EOS), None)


def log_coverage(source: str, words: Collection[str], sentences: Sequence[Sentence]) -> int:
    """Log and return the number of words of train found by `entry`, not counting `<unk>`."""
    train, table = {word for sentence in sentences for word in sentence.words}, dict.fromkeys(words, True)
    table.pop(UNK, None)
    covered = sum(entry(word, table) is not None for word in train)
    log.info("%s has %s of %s words of train", source, f"{covered:,}", f"{len(train):,}")
    return covered


EDGE = "<>"
"""The word beyond the ends of a sentence."""

AFFIX = 5
"""The maximum length of prefixes and suffixes in letters."""

PREFIXES = (4, 6, 10, 20)
"""The lengths of prefixes of cluster paths used as features, in bits (Ratinov & Roth 2009)."""


def templates(sentence: Sentence, paths: Mapping[str, str]) -> list[list[str]]:
    """The names of each word's features: neighbouring words and other columns, affixes and shape.

    As in the taggers of Ratnaparkhi (1996) and the chunker of Sha & Pereira (2003), with windows of two. Prefixes of
    the cluster ``paths`` of a word and its neighbours are features, too.
    """
    words = [EDGE, EDGE, *sentence.words, EDGE, EDGE]
    lower = [word.lower() for word in words]
    columns = [[EDGE, EDGE, *column, EDGE, EDGE] for column in zip(*sentence.features, strict=True)]
    bits = [entry(word, paths) or "" for word in words[1:-1]]
    features = []
    for i in range(2, len(words) - 2):
        word = words[i]
        here = ["bias", f"W={word}"]
        here += [f"{side}={part}" for n in range(1, min(AFFIX, len(word)) + 1)
                 for side, part in (("<", word[:n]), (">", word[-n:].lower()))]  # fmt: skip
        here += ["shape=" + re.sub(r"\d+", "0", re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", word)))]
        here += [f"w{d}={lower[i + d]}" for d in range(-2, 3)]
        here += [f"w{d},{d + 1}={lower[i + d]} {lower[i + d + 1]}" for d in (-1, 0)]
        here += [f"s{d}={lower[i + d][-3:]}" for d in (-1, 1)]
        here += [f"c{d},{n}={bits[i - 1 + d][:n]}" for d in (-1, 0, 1) if bits[i - 1 + d] for n in PREFIXES]
        for k, column in enumerate(columns):
            tags = column[i - 2 : i + 3]
            here += [f"{k}t{d}={tags[2 + d]}" for d in range(-2, 3)]
            here += [f"{k}t{d},{d + 1}={' '.join(tags[2 + d : 4 + d])}" for d in range(-2, 2)]
            here += [f"{k}t{d},{d + 2}={' '.join(tags[2 + d : 5 + d])}" for d in (-2, -1, 0)]
            here += [f"{k}wt={lower[i]} {tags[2]}"]
        features.append(here)
    return features


class Lexical(Saved):
    """The features of `templates` that are frequent enough in train.

    Args:
        min_count: the minimum number of occurrences of a feature in train.
        option: the name of ``min_count`` in errors.
        clusters: a file of ``lmzoo cluster --paths``, whose prefixes of paths are features; None: none.

    Attributes:
        numbers: the index of each of F features.
    """

    saved = ("numbers", "paths")

    def __init__(self, min_count: int, option: str, clusters: str | None):
        self.min_count, self.option, self.clusters = min_count, option, clusters
        self.paths: Mapping[str, str] = {}
        self.numbers: dict[str, int] = {}

    def start(self, sentences: Sequence[Sentence]) -> None:
        """Select the features of train; raise a UserError if none is frequent enough, or no word has a cluster."""
        if self.clusters is not None:
            with error_prefix("labeller.clusters"):
                self.paths = read_paths(Path(self.clusters))
            if not log_coverage(self.clusters, self.paths, sentences):
                raise UserError(f"labeller.clusters: {self.clusters} has none of the words of train")
        counts = Counter(name for sentence in sentences for row in templates(sentence, self.paths) for name in row)
        self.numbers = {name: i for i, name in enumerate(n for n, c in counts.items() if c >= self.min_count)}
        if not self.numbers:
            raise UserError(f"{self.option}={self.min_count}: no feature has this count", "set it to 1")

    def rows(self, sentences: Sequence[Sentence]) -> SparseRows:
        """The features of all words of sentences."""
        templated = (names for sentence in sentences for names in templates(sentence, self.paths))
        rows = ([self.numbers[name] for name in names if name in self.numbers] for names in templated)
        return SparseRows.of(rows, len(self.numbers))
