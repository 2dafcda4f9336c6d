"""Tokenizers for plain text."""

import re
from collections.abc import Callable, Mapping

PTB = re.compile(
    r"<unk>|n't|'(?:s|re|ve|ll|d|m)\b|[$%#&]|(?:[a-z]\.){2,}|(?:mr|mrs|ms|dr|jr|sr|st|inc|corp|co|ltd)\.(?!\w)"
    r"|N(?!\w)|[a-z0-9]+?(?=n't\b)|[a-z0-9]+(?:[-/&.][a-z0-9]+)*"
)
NUMBER = re.compile(r"(?<![\w-])\d[\d,.]*(?<![,.])(?![\w-])")
WORDS = re.compile(r"<unk>|\d+(?:[.,]\d+)+(?!\w)|\w+(?:['’-]\w+)*|[^\w\s]")


def ptb(line: str) -> str:
    """Tokenize as Mikolov et al. (2010) did Penn Treebank: lower case, no punctuation, clitics split, numbers as N."""
    return " ".join(PTB.findall(NUMBER.sub("N", line.lower().replace("’", "'"))))


def words(line: str) -> str:
    """Separate words and punctuation; apostrophes and hyphens inside words are left in place."""
    return " ".join(WORDS.findall(line))


TOKENIZERS: Mapping[str, Callable[[str], str]] = {"ptb": ptb, "words": words}
"""A line of plain text -> words separated by spaces."""
