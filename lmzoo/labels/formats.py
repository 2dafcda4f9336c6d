"""Labelled texts: the base of all formats, and the format of a label and a text per line."""

import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import read_text
from lmzoo.core.options import Count
from lmzoo.corpus.conditions import label_and_text
from lmzoo.labels.schemes import SchemeName

Separator = Literal["CoNLL-U", "tabs", "spaces"]
"""The separators of columns."""


@dataclass(frozen=True)
class Sentence:
    """Words, their labels (a single one if the whole text is labelled), and further columns, a list per word."""

    words: list[str]
    labels: list[str]
    features: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The layout of train, recorded by a run so that it labels only texts in the same layout.

    Attributes:
        labels: the labels in train.
        separator, width: the separator and number of columns; None and 0 without columns.
        scheme: the scheme of its labels, if they encode entities.
    """

    labels: list[str]
    separator: Separator | None = None
    width: Count = 0
    scheme: SchemeName | None = None


class LabelledText(ABC):
    """A labelled text, which can be rewritten with other labels."""

    left_out: str = ""
    sentences: list[Sentence]

    @abstractmethod
    def written(self, labels: Iterable[Sequence[str]]) -> bytes:
        """The text with its labels replaced, otherwise unchanged."""


def whole_lines(path: Path) -> list[str]:
    """The lines of a text with their ends; raises as `read_text` does."""
    return list(io.StringIO(read_text(path).decode(), newline="\n"))


def looks_like_word(label: str, known_labels: Collection[str]) -> bool:
    """Whether a string in the column of labels is a word rather than a label, ``_`` or the like."""
    return label not in known_labels and any(map(str.isalnum, label))


class LineText(LabelledText):
    """Texts with one label each, one per line."""

    def __init__(self, lines: list[str], sentences: list[Sentence]):
        self.lines, self.sentences = lines, sentences

    @classmethod
    def read(cls, path: Path, labelled: bool = True, known_labels: Collection[str] = ()) -> "LineText":
        """Read a file of lines ``label TAB text``, with words separated by white space; raise a UserError otherwise.

        Unless ``labelled``, labels may be missing, and strings not in ``known_labels`` are not labels.
        """
        advice = "a line must be a label, a tab and a text"
        lines, sentences = whole_lines(path), []
        for number, line in enumerate(lines, 1):
            label, text = label_and_text(line)
            if label is None and not labelled:
                label, text = "", line
            elif not label:
                raise UserError(f"{path}: line {number} has no label", advice)
            elif not labelled and known_labels and looks_like_word(label, known_labels):
                unknown = f"has '{shortened(label, 40)}' as a label, which the run does not have"
                raise UserError(f"{path}: line {number} {unknown}", f"{advice}, or a text without a tab")
            if not text.split():
                raise UserError(f"{path}: line {number} has no words", advice)
            sentences.append(Sentence(text.split(), [label], []))
        return cls(lines, sentences)

    def written(self, labels: Iterable[Sequence[str]]) -> bytes:
        rows = zip(self.lines, [sentence.labels[0] for sentence in self.sentences], labels, strict=True)
        return "".join(line.replace(old, new, 1) if old else f"{new}\t{line}" for line, old, (new,) in rows).encode()


class PlainText(LabelledText):
    """Sentences without labels, one per line; each word becomes a line with a tab and its label, or each text follows
    its label and a tab if the ``whole`` text is labelled.

    Attributes:
        empty: the number of lines without words, which are left out.
    """

    def __init__(self, path: Path, whole: bool, tokenize: Callable[[str], str] = str):
        lines = [tokenize(line).split() for line in whole_lines(path)]
        texts = [words for words in lines if words]
        if not texts:
            raise UserError(f"{path}: has no words", "write a sentence a line")
        self.whole, self.empty = whole, len(lines) - len(texts)
        self.sentences = [Sentence(words, [""] * (1 if whole else len(words)), [[] for _ in words]) for words in texts]

    def written(self, labels: Iterable[Sequence[str]]) -> bytes:
        parts = []
        for sentence, row in zip(self.sentences, labels, strict=True):
            if self.whole:
                parts.append(f"{row[0]}\t{' '.join(sentence.words)}\n")
            else:
                parts += [f"{word}\t{label}\n" for word, label in zip(sentence.words, row, strict=True)] + ["\n"]
        return "".join(parts).encode()
