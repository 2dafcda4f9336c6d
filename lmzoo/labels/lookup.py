"""Lookup of words of labelled texts in tables from other texts."""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from lmzoo.corpus.vocabulary import EOS, UNK
from lmzoo.labels.formats import Sentence

log = logging.getLogger(__name__)

T = TypeVar("T")

NUMBER = re.compile(r"[\d.,:/\\-]*\d[\d.,:/\\-]*")


def entry(word: str, table: Mapping[str, T]) -> T | None:
    """The value of a word in a table: as it is, in lower case, as N (a number in Penn Treebank), or as `<unk>`."""
    forms = [word, word.lower(), *(["N"] if NUMBER.fullmatch(word) else []), UNK]
    return next((table[form] for form in forms if form in table and form != EOS), None)


def log_covered(source: str, words: Collection[str], sentences: Sequence[Sentence]) -> int:
    """Log and return the number of words of train found by `entry`, not counting `<unk>`."""
    train, table = {word for sentence in sentences for word in sentence.words}, dict.fromkeys(words, True)
    table.pop(UNK, None)
    covered = sum(entry(word, table) is not None for word in train)
    log.info("%s has %s of %s words of train", source, f"{covered:,}", f"{len(train):,}")
    return covered
