"""The Python language reference, included in CPython: real English without a download.

Help topics are sorted by name and split into paragraphs at blank lines. Paragraphs in which fewer than half of the
characters are letters (grammars, rules, tables) are dropped, and so are repetitions of earlier paragraphs, which could
appear in both train and test. Paragraphs are split into sentences after ``.``, ``?``, ``!`` or ``:`` before white
space. Identifiers are lower-cased, numbers become ``N``, and every other character is a word. Of ten paragraphs, the
ninth goes to valid and the tenth to test. Words with fewer than two occurrences in train become ``<unk>``.
"""

import re
from collections import Counter
from pydoc_data.topics import topics

from lmzoo.corpus.vocabulary import UNK

WORD = re.compile(r"[^\W\d]\w*|\d+(?:\.\d+)*|[^\w\s]")
SENTENCE_END = re.compile(r"(?<=[.?!:])\s+")


def _words(sentence: str) -> str:
    return " ".join("N" if word[0].isdigit() else word.lower() for word in WORD.findall(sentence))


def pydoc_lines() -> dict[str, list[str]]:
    """The splits of this interpreter's language reference, one sentence per line."""
    text = "\n\n".join(topics[name] for name in sorted(topics))
    readable = [p for p in re.split(r"\n\s*\n", text) if 2 * sum(map(str.isalpha, p)) >= len(p)]
    paragraphs = dict.fromkeys(" ".join(p.split()) for p in readable)
    splits: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for number, paragraph in enumerate(paragraphs):
        split = {8: "valid", 9: "test"}.get(number % 10, "train")
        splits[split] += filter(None, map(_words, SENTENCE_END.split(paragraph)))
    counts = Counter(word for line in splits["train"] for word in line.split())
    return {
        split: [" ".join(word if counts[word] > 1 else UNK for word in line.split()) for line in lines]
        for split, lines in splits.items()
    }
