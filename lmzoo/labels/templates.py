"""Lexical features of the words of a sentence, as names."""

import re
from collections.abc import Mapping

from lmzoo.labels.formats import Sentence
from lmzoo.labels.lookup import entry

EDGE = "<>"
"""The word beyond either end of a sentence."""

AFFIX = 5
"""Letters of the longest prefix and suffix."""


PREFIXES = (4, 6, 10, 20)
"""How many bits of a word's path in a tree of clusters are features (Ratinov & Roth 2009)."""


def templates(sentence: Sentence, paths: Mapping[str, str]) -> list[list[str]]:
    """For each word the names of its features: the words and other columns around it, its affixes and its shape.

    As in the taggers of Ratnaparkhi (1996) and the chunker of Sha & Pereira (2003), with windows of two. ``paths`` are
    those of words in a tree of clusters; the beginnings of the paths of a word and its neighbours are features, too.
    """
    words = [EDGE, EDGE, *sentence.words, EDGE, EDGE]
    lower = [word.lower() for word in words]
    columns = [[EDGE, EDGE, *column, EDGE, EDGE] for column in zip(*sentence.features, strict=True)]
    bits = [entry(word, paths) or "" for word in words[1:-1]]
    found = []
    for i in range(2, len(words) - 2):
        here = ["bias", f"W={words[i]}", *_letters(words[i])]
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
        found.append(here)
    return found


def _letters(word: str) -> list[str]:
    """Affixes, and what the signs of a word are like."""
    shape = re.sub(r"\d+", "0", re.sub(r"[a-z]+", "a", re.sub(r"[A-Z]+", "A", word)))
    affixes = [f"{side}={part}" for n in range(1, min(AFFIX, len(word)) + 1)
               for side, part in (("<", word[:n]), (">", word[-n:].lower()))]  # fmt: skip
    return [*affixes, f"shape={shape}"]
