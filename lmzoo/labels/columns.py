"""Labelled words in columns: CoNLL's, with an empty line between sentences, and CoNLL-U."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmzoo.core.errors import UserError, shortened
from lmzoo.labels.formats import LabelledText, Layout, Parted, Place, Sentence, is_stranger, whole_lines

UNIVERSAL_NAME = re.compile(r"\.conllu(\.gz|\.zst)?$", re.IGNORECASE)

UNIVERSAL_BEGIN = re.compile(r"(1|1-[0-9]+|0\.1)((\t[^\t]*){9}|([ \t]+[^ \t]+){9}[ \t]*)$")
"""The first word, range or empty node of CoNLL-U, in which an editor may have put spaces for tabs."""

UNIVERSAL_NUMBER = re.compile(r"[0-9]+([-.][0-9]+)?")
"""Of a word, a range (``2-3 don't``) or an empty node (``8.1``)."""

UNIVERSAL_WIDTH = 10

DOCUMENT = re.compile(r"-DOCSTART-(?![^ \t])")
"""A line that begins a document, in CoNLL-2003."""

HASH = re.compile(r"#(?![^ \t])")
"""A sign by itself, with which comments begin, and which may be a word; ``#this`` rather is one."""

SAME_FORM = "give a text of the same form"

WORD_A_LINE = "write a word a line, and an empty line between sentences"


@dataclass(frozen=True)
class Columns:
    """Which columns of a file hold what, the first being 0."""

    word: int
    label: int
    features: Sequence[int] = ()


@dataclass(frozen=True)
class ColumnText(LabelledText):
    """A text in columns.

    Attributes:
        rows: for every sentence, the numbers of the lines that hold its words, the first being 0.
        width: the number of columns.
    """

    lines: list[str]
    rows: list[list[int]]
    sentences: list[Sentence]
    parted: Parted
    width: int
    columns: Columns
    left_out: str

    @classmethod
    def read(
        cls,
        path: Path,
        columns: Columns,
        name: str = "",
        like: Layout | None = None,
        labelled: bool = True,
        is_label: Callable[[str], object] = lambda label: False,
    ) -> "ColumnText":
        """A file that is CoNLL-U if its name or its first word says so, and has other columns if not.

        Args:
            name: that of the file, where ``path`` does not tell it.
            like: the form of train; None for train itself, and where a run does not tell it.
            labelled: whether the column of labels is needed. A text without it, which may end before it, must be like
                train in all else, too.
            is_label: whether a label shows by itself that it is one.

        Raises: UserError that names the line where one has more or fewer columns than the others, no word or no label,
            or is nothing that CoNLL-U has; for another form than that of train; and as `read_text` does.
        """
        lines = whole_lines(path)
        table = _Table(path, [line.rstrip("\r\n") for line in lines], columns, like, labelled)
        rows = table.universal_words() if table.is_universal(name or path.name) else table.words(is_label)
        if not (rows := [sentence for sentence in rows if sentence]):
            raise UserError(f"{path}: no words in it", "it must have a word and its label a line")
        if not labelled:
            table.check_unlabelled(rows)
        sentences = [table.sentence(sentence) for sentence in rows]
        return cls(lines, rows, sentences, table.parted, table.width, columns, table.left_out)

    def places(self) -> Iterator[list[Place]]:
        column, tabs = self.columns.label, self.parted != "spaces"
        before = re.compile(rf"([^\t]*\t){{{column}}} *" if tabs else rf"[ \t]*([^ \t]+[ \t]+){{{column}}}")
        for numbers, sentence in zip(self.rows, self.sentences, strict=True):
            places = []
            for number, label in zip(numbers, sentence.labels, strict=True):
                line = self.lines[number].rstrip("\r\n")
                if self.width <= column:
                    places.append(Place(number, len(line), len(line), "\t" if tabs else " "))
                elif found := before.match(line):
                    begin = line.index(label, found.end())
                    places.append(Place(number, begin, begin + len(label)))
            yield places


class _Table:
    """The lines of a file, without their ends, and their columns."""

    def __init__(self, path: Path, lines: list[str], columns: Columns, like: Layout | None, labelled: bool):
        self.path, self.lines, self.columns, self.labelled = path, lines, columns, labelled
        self.like = like if like and like.parted else None
        filled = [number for number, line in enumerate(lines) if line.strip(" \t") and not DOCUMENT.match(line)]
        self.ordinary = [number for number in filled if not lines[number].startswith("#")] or filled
        self.parted: Parted = "spaces"
        self.by = "tabs part them"
        self.width, self.left_out = 0, ""

    def fields(self, number: int) -> list[str]:
        """The columns of a line. No other blanks than spaces and tabs part them, nor are they taken off a word."""
        if self.parted == "spaces":
            return [field for field in self.lines[number].replace("\t", " ").split(" ") if field]
        return [field.strip(" ") for field in self.lines[number].split("\t")]

    def wrong(self, number: int, what: str, advice: str) -> UserError:
        return UserError(f"{self.path}: line {number + 1} {what}", advice)

    def is_universal(self, name: str) -> bool:
        """Whether it is CoNLL-U, which train must be, too."""
        if self.lines[0].startswith("# global.columns"):
            raise UserError(f"{self.path}: is CoNLL-U Plus, which is not read", "write the ten columns of CoNLL-U")
        first = self.lines[self.ordinary[0]] if self.ordinary else ""
        universal = bool(UNIVERSAL_NAME.search(name) or UNIVERSAL_BEGIN.match(first))
        if self.like and (self.like.parted == "CoNLL-U") != universal:
            here, there = ("", "no ") if universal else ("no ", "")
            raise UserError(f"{self.path}: is {here}CoNLL-U, and train is {there}CoNLL-U", SAME_FORM)
        return universal

    def universal_words(self) -> list[list[int]]:
        """For every sentence of CoNLL-U, the lines of its words."""
        self.parted = "CoNLL-U"
        rows: list[list[int]] = [[]]
        for number, line in enumerate(self.lines):
            if not line.strip(" \t"):
                rows.append([])
            elif not line.startswith("#"):
                fields = self.fields(number)
                if len(fields) != UNIVERSAL_WIDTH:
                    raise self.wrong(number, f"has {len(fields)} of the ten columns of CoNLL-U",
                                     "tabs part them, and a comment begins with #")  # fmt: skip
                if not UNIVERSAL_NUMBER.fullmatch(fields[0]):
                    raise self.wrong(number, f"begins with '{shortened(fields[0], 40)}', no number of CoNLL-U",
                                     "it must be one of a word, 2, of a range, 2-3, or an empty node, 8.1")  # fmt: skip
                if fields[0] == "1" and rows[-1]:
                    raise self.wrong(number, "begins a sentence", "there must be an empty line before it")
                if fields[0].isdecimal():
                    if fields[0] != (next_one := str(len(rows[-1]) + 1)):
                        raise self.wrong(number, f"is word {shortened(fields[0], 20)}, and {next_one} comes next",
                                         "an empty line ends a sentence, and no other stands in it")  # fmt: skip
                    rows[-1].append(number)
        if words := [number for sentence in rows for number in sentence]:
            self.set_width(words[0])
        return rows

    def words(self, is_label: Callable[[str], object]) -> list[list[int]]:
        """For every sentence of other columns, the lines of its words. Tabs alone part them where a line has one."""
        tabs = next((number for number in self.ordinary if "\t" in self.lines[number]), None)
        self.parted = "spaces" if tabs is None else "tabs"
        if self.like and not self.labelled:
            self.parted = self.like.parted or self.parted
            if tabs is not None and self.parted == "spaces":
                raise self.wrong(tabs, "has a tab, and the run learnt from columns that spaces part", SAME_FORM)
        self.by = f"{self.parted} part them" + (f", as in line {tabs + 1}" if tabs else "")
        if self.ordinary:
            self.set_width(self.ordinary[0])
        labels = self.labels()
        rows: list[list[int]] = [[]]
        comments = documents = 0
        for number, line in enumerate(self.lines):
            if not line.strip(" \t"):
                rows.append([])
            elif DOCUMENT.match(line):
                rows.append([])
                documents += 1
            elif not line.startswith("#"):
                if (found := len(self.fields(number))) != self.width:
                    first = f"line {self.ordinary[0] + 1} has {self.width}"
                    raise self.wrong(number, f"has {found} columns, and {first}; {self.by}", WORD_A_LINE)
                rows[-1].append(number)
            elif self.is_word(number, not rows[-1], lambda label: label in labels or label == "#" or is_label(label)):
                rows[-1].append(number)
            else:
                comments += 1
        counts = {"comments": comments, "lines of -DOCSTART-": documents}
        self.left_out = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
        return rows

    def labels(self) -> set[str]:
        """Those of words that are no doubtful ones, and those of train."""
        lines = self.lines
        sure = {number for number in self.ordinary if not lines[number].startswith("#")}
        sure |= {number + 1 for number in sure
                 if lines[number + 1 : number + 2] and lines[number + 1].startswith("#")
                 and not HASH.match(lines[number + 1])}  # fmt: skip
        found = {fields[self.telling].strip() for fields in map(self.fields, sure) if len(fields) == self.width}
        return found | set(self.like.labels if self.like else [])

    @property
    def telling(self) -> int:
        """The column that tells a word from a comment: that of labels, or the last one where there are none yet."""
        return min(self.columns.label, self.width - 1)

    def is_word(self, number: int, begins: bool, is_label: Callable[[str], object]) -> bool:
        """Whether a line that begins with # is a word and no comment.

        A word has as many columns as others, and a label that others have. A comment has another number of columns, or
        stands before the first word of a sentence.

        Raises: UserError where it may be both.
        """
        fields, alone = self.fields(number), bool(HASH.match(self.lines[number]))
        if len(fields) == self.width and (self.width > 1 or fields[0] == "#" or not alone):
            if self.width == 1 or is_label(fields[self.telling].strip()):
                return True
            if alone and begins:
                return False
        elif alone or begins:
            return False
        raise self.wrong(number, "may be a word or a comment, which begins with #",
                         "take the comment away, or give the word a label that another word has")  # fmt: skip

    def set_width(self, number: int) -> None:
        """Let all lines have as many columns as this one, if they are enough, or as many as the run learnt from."""
        word, label, features = self.columns.word, self.columns.label, list(self.columns.features)
        self.width = len(self.fields(number))
        needed = 1 + max(word, label - (not self.labelled), *features)
        if self.width < needed:
            names = f"task.word={word}, task.label={label} and task.features={features} name them, 0 the first"
            few = f"has {self.width} of the {needed} columns that are needed"
            raise self.wrong(number, few, f"{names}; {self.by}")
        if not self.labelled and self.like and self.width not in (label, self.like.width):
            raise self.wrong(
                number, f"has {self.width} columns, and the run learnt from {self.like.width}", WORD_A_LINE
            )

    def check_unlabelled(self, rows: list[list[int]]) -> None:
        """Test that what stands in the column of labels, if it is there, are no words of a sentence a line."""
        label = self.columns.label
        if label >= self.width or self.parted == "CoNLL-U":
            return
        numbers = [number for sentence in rows for number in sentence]
        if self.like:
            strangers = [n for n in numbers if is_stranger(self.fields(n)[label].strip(), self.like.labels)]
        else:  # a run that does not tell what it learnt from
            strangers = numbers if len(numbers) == len(rows) and self.width > label + 1 else []
        if 2 * len(strangers) > len(numbers):
            word = shortened(self.fields(strangers[0])[label], 40)
            raise self.wrong(
                strangers[0], f"has '{word}' for a label, which the run has not learnt", f"{WORD_A_LINE}; _ is no label"
            )

    def sentence(self, numbers: list[int]) -> Sentence:
        """The words of these lines."""
        words, labels, features = [], [], []
        for number in numbers:
            fields = self.fields(number)
            word = fields[self.columns.word]
            label = fields[self.columns.label].strip() if self.columns.label < self.width else ""
            if not word or (self.labelled and not label):
                raise self.wrong(number, f"has no {'label' if word else 'word'} in its column", "fill it in")
            words.append(word)
            labels.append(label)
            features.append([fields[column] for column in self.columns.features])
        return Sentence(words, labels, features)
