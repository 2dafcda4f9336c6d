"""Labelled text: in columns, CoNLL's, with an empty line between sentences, and CoNLL-U; a label and a text a line."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmzoo.core.errors import UserError
from lmzoo.core.files import read_lines


@dataclass(frozen=True)
class Sentence:
    """Words, their labels, and other columns that a model may read; each a list of one entry per word.

    A text that is labelled as a whole has one label.
    """

    words: list[str]
    labels: list[str]
    features: list[list[str]]


@dataclass(frozen=True)
class Columns:
    """Which columns of a file hold what, the first being 0."""

    word: int
    label: int
    features: Sequence[int] = ()


class Text(ABC):
    """A labelled text, and what is needed to write it again with other labels."""

    sentences: list[Sentence]

    @abstractmethod
    def written(self, labels: Iterable[Sequence[str]]) -> bytes:
        """The text with other labels in the place of its own, all else as it was."""


@dataclass(frozen=True)
class ColumnText(Text):
    """A text in columns.

    Attributes:
        lines: the lines of the file.
        rows: for every sentence, the numbers of the lines that hold its words.
    """

    lines: list[str]
    rows: list[list[int]]
    sentences: list[Sentence]
    separator: str | None
    columns: Columns

    @classmethod
    def read(cls, path: Path, columns: Columns, universal: bool, labelled: bool = True) -> "ColumnText":
        """A file in columns that spaces part, or in CoNLL-U if it is ``universal``.

        Of CoNLL-U, comments, ranges (``2-3 don't``) and empty nodes (``8.1``) hold no words. A text that is not
        ``labelled`` may end before the column of labels.

        Raises: UserError for a line with too few columns, for a text without labels that has a sentence a line, and as
        `read_lines` does.
        """
        lines = [line.rstrip("\r") for line in read_lines(path)]
        separator = "\t" if universal else None
        rows: list[list[int]] = [[]]
        for number, line in enumerate(lines):
            if not line.strip():
                rows.append([])
            elif not universal or line.split("\t")[0].isdigit():
                rows[-1].append(number)
        rows = [sentence for sentence in rows if sentence]
        if not rows:
            raise UserError(f"{path}: no words in it", "it must have a word and its label a line")
        table = [[lines[number].split(separator) for number in sentence] for sentence in rows]
        widths = {len(field) for fields in table for field in fields}
        as_lines = all(len(sentence) == 1 for sentence in rows) or len(widths) > 1
        if not (labelled or universal) and as_lines and max(widths) > columns.label + 1:
            raise UserError(f"{path}: its lines are no words with columns",
                            "write a word a line, and an empty line between sentences")  # fmt: skip
        needed = 1 + max(columns.word, columns.label - (not labelled), *columns.features)
        sentences = []
        for sentence, fields in zip(rows, table, strict=True):
            for number, field in zip(sentence, fields, strict=True):
                if len(field) < needed:
                    few = f"line {number + 1} has {len(field)} of the {needed} columns that are needed"
                    raise UserError(f"{path}: {few}",
                                    f"task.word={columns.word}, task.label={columns.label} and "
                                    f"task.features={list(columns.features)} name them, 0 the first")  # fmt: skip
            taken = [[field[column] for column in columns.features] for field in fields]
            words = [field[columns.word] for field in fields]
            labels = [field[columns.label] if labelled else "" for field in fields]
            sentences.append(Sentence(words, labels, taken))
        return cls(lines, rows, sentences, separator, columns)

    def written(self, labels: Iterable[Sequence[str]]) -> bytes:
        lines = list(self.lines)
        for rows, given in zip(self.rows, labels, strict=True):
            for number, label in zip(rows, given, strict=True):
                fields = lines[number].split(self.separator)
                fields[self.columns.label : self.columns.label + 1] = [label]
                lines[number] = (self.separator or " ").join(fields)
        return ("\n".join(lines) + "\n").encode()


@dataclass(frozen=True)
class LineText(Text):
    """Texts with one label each.

    Attributes:
        texts: each as it stands in its line, without the label.
    """

    texts: list[str]
    sentences: list[Sentence]

    @classmethod
    def read(cls, path: Path, labelled: bool = True) -> "LineText":
        """A file of lines ``label TAB text``, whose words spaces part. If not ``labelled``, labels may be missing.

        Raises: UserError for a line without a label or without words, and as `read_lines` does.
        """
        texts, sentences = [], []
        for number, line in enumerate(read_lines(path), 1):
            label, tab, text = line.rstrip("\r").partition("\t")
            if not tab and not labelled:
                label, text = "", label
            elif not (tab and label.strip()):
                raise UserError(f"{path}: line {number} has no label", "a line must be a label, a tab and a text")
            if not text.split():
                raise UserError(f"{path}: line {number} has no words", "a line must be a label, a tab and a text")
            texts.append(text)
            sentences.append(Sentence(text.split(), [label], []))
        return cls(texts, sentences)

    def part(self, lines: Iterable[int]) -> "LineText":
        """Some of the lines."""
        numbers = list(lines)
        return LineText([self.texts[i] for i in numbers], [self.sentences[i] for i in numbers])

    def written(self, labels: Iterable[Sequence[str]]) -> bytes:
        lines = [f"{label}\t{text}\n" for (label,), text in zip(labels, self.texts, strict=True)]
        return "".join(lines).encode()
