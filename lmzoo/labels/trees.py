"""Binary trees with a label at each node, as in the Stanford Sentiment Treebank: ``(3 (2 The) (2 film))``."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmzoo.core.errors import UserError, shortened
from lmzoo.labels.formats import LabelledText, Sentence, whole_lines

TOKEN = re.compile(r"(\([ \t]*[^ \t()]*)|([^ \t()]+)|(\))")
"""A bracket with its label, a word, or a closing bracket. A word may contain no-break spaces."""

LABEL = re.compile(r"(\([ \t]*)[^ \t()]+")

SENTIMENTS = ["0", "1", "2", "3", "4"]
"""Very negative to very positive."""

NEUTRAL = "2"


def parsed(line: str) -> tuple[list[str], list[str], list[int]]:
    """Parse a line into words, labels and right children, see `Tree`; raise a ValueError with the reason if invalid."""
    words: list[str] = []
    labels: list[str] = []
    right: list[int] = []
    open_: list[tuple[int, list[int]]] = []
    leaves: set[int] = set()
    for begin, word, _ in TOKEN.findall(line):
        if not open_ and (right or not begin):
            raise ValueError("has text after its tree" if right else "does not begin with a bracket")
        node, children = open_[-1] if open_ else (-1, [])
        if begin:
            if node in leaves:
                raise ValueError(f"has a node with a word and a node, after {words[-1]!r}")
            label = begin[1:].strip()
            if not label:
                raise ValueError(f"has a node without a label, node {len(right) + 1}")
            children.append(len(right))
            open_.append((len(right), []))
            labels.append(label)
            right.append(0)
        elif word:
            if node in leaves or children:
                raise ValueError(f"has a word that is no node of its own, {shortened(word)!r}")
            words.append(word)
            leaves.add(node)
        else:
            open_.pop()
            if node not in leaves:
                if len(children) != 2:
                    raise ValueError(f"has a node with {len(children)} children, node {node + 1}, label {labels[node]}")
                right[node] = children[1]
    if open_ or not right:
        raise ValueError("is empty" if not right else f"lacks {len(open_)} closing brackets")
    return words, labels, right


@dataclass(frozen=True)
class Tree(Sentence):
    """A binary tree: labels in the order of opening brackets, and the index of each right child, 0 for a leaf."""

    right: list[int]


class TreeText(LabelledText):
    """One tree per line."""

    def __init__(self, path: Path):
        """Read a file of trees; raise a UserError if a line is not a tree, and as `read_text` does."""
        self.lines, self.sentences = whole_lines(path), []
        for number, line in enumerate(self.lines, 1):
            try:
                words, labels, right = parsed(line.rstrip("\r\n"))
            except ValueError as error:
                raise UserError(f"{path}: line {number} {error}", "a tree a line, such as (3 (2 A) (2 film))") from None
            self.sentences.append(Tree(words, labels, [], right))

    def written(self, labels: Iterable[Sequence[str]]) -> bytes:
        rows = zip(self.lines, map(iter, labels), strict=True)
        return "".join(LABEL.sub(lambda found, row=row: found[1] + next(row), line) for line, row in rows).encode()


def polarity_accuracy(sentences: Sequence[Sentence], probabilities: Sequence[Sequence[float]]) -> float | None:
    """The fraction of non-neutral roots with the correct polarity; None if all are neutral.

    Args:
        probabilities: of the labels 0 to 4 for each root; positive if p(3) + p(4) > p(0) + p(1).
    """
    right = [(p[3] + p[4] > p[0] + p[1]) == (tree.labels[0] > NEUTRAL)
             for tree, p in zip(sentences, probabilities, strict=True) if tree.labels[0] != NEUTRAL]  # fmt: skip
    return sum(right) / len(right) if right else None
