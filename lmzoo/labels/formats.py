"""Labelled text: what all its forms have in common, and a label and a text a line."""

import io
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from lmzoo.core.errors import UserError, shortened
from lmzoo.core.files import read_text
from lmzoo.core.options import Count
from lmzoo.corpus.conditions import label_and_text
from lmzoo.labels.schemes import SchemeName

Parted = Literal["CoNLL-U", "tabs", "spaces"]
"""What parts the columns of a text."""


@dataclass(frozen=True)
class Sentence:
    """Words, their labels (one for a text that is labelled as a whole), and further columns, a list for each word."""

    words: list[str]
    labels: list[str]
    features: list[list[str]]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """What train is like, which a run keeps so that it labels no text of another layout.

    Attributes:
        labels: those that train has.
        parted, width: what parts its columns, and how many there are; None and 0 where it has none.
        scheme: that of its labels, where they stand for entities.
    """

    labels: list[str]
    parted: Parted | None = None
    width: Count = 0
    scheme: SchemeName | None = None


class Place(NamedTuple):
    """Where a label stands: the number of its line, its first sign and the one after its last.

    Where there is none yet, ``before`` and ``after`` are written beside it.
    """

    line: int
    begin: int
    end: int
    before: str = ""
    after: str = ""


class LabelledText(ABC):
    """A labelled text in lines with their ends, and what is needed to write it again with other labels."""

    left_out: str = ""

    def __init__(self, lines: list[str], sentences: list[Sentence]):
        self.lines, self.sentences = lines, sentences

    @abstractmethod
    def places(self) -> Iterator[list[Place]]:
        """For every sentence, where its labels stand."""

    def written(self, labels: Iterable[Sequence[str]]) -> bytes:
        """The text with other labels in the place of its own, all else as it was."""
        lines = list(self.lines)
        for places, row in zip(self.places(), labels, strict=True):
            for (number, begin, end, before, after), label in reversed([*zip(places, row, strict=True)]):
                line = lines[number]
                lines[number] = f"{line[:begin]}{before}{label}{after}{line[end:]}"
        return "".join(lines).encode()


def whole_lines(path: Path) -> list[str]:
    """The lines of a text with their ends; errors as `read_text` has them."""
    return list(io.StringIO(read_text(path).decode(), newline="\n"))


def is_stranger(label: str, learnt: Collection[str]) -> bool:
    """Whether what stands in the place of a label is none, but a word of the text: not ``_`` or the like."""
    return label not in learnt and any(map(str.isalnum, label))


class LineText(LabelledText):
    """Texts with one label each, a line each."""

    @classmethod
    def read(cls, path: Path, labelled: bool = True, learnt: Collection[str] = ()) -> "LineText":
        """A file of lines ``label TAB text``, whose words white space parts; a UserError for others.

        If not ``labelled``, labels may be missing, and others than those that are ``learnt`` are none.
        """
        advice = "a line must be a label, a tab and a text"
        lines, sentences = whole_lines(path), []
        for number, line in enumerate(lines, 1):
            label, text = label_and_text(line)
            if label is None and not labelled:
                label, text = "", line
            elif not label:
                raise UserError(f"{path}: line {number} has no label", advice)
            elif not labelled and learnt and is_stranger(label, learnt):
                unknown = f"has '{shortened(label, 40)}' for a label, which the run has not learnt"
                raise UserError(f"{path}: line {number} {unknown}", f"{advice}, or a text without a tab")
            if not text.split():
                raise UserError(f"{path}: line {number} has no words", advice)
            sentences.append(Sentence(text.split(), [label], []))
        return cls(lines, sentences)

    def part(self, lines: Iterable[int]) -> "LineText":
        """Some of the lines."""
        numbers = list(lines)
        return LineText([self.lines[i] for i in numbers], [self.sentences[i] for i in numbers])

    def places(self) -> Iterator[list[Place]]:
        for number, (line, sentence) in enumerate(zip(self.lines, self.sentences, strict=True)):
            (label,) = sentence.labels
            begin = line.index(label)
            yield [Place(number, begin, begin + len(label), after="" if label else "\t")]
