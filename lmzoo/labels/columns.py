"""Labelled words in columns: CoNLL's formats, with an empty line between sentences, and CoNLL-U."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lmzoo.core.errors import UserError, pluralize, shortened
from lmzoo.core.files import text_ending
from lmzoo.labels.formats import LabelledText, Layout, Sentence, Separator, looks_like_word, whole_lines

UNIVERSAL_BEGIN = re.compile(r"(1|1-[0-9]+|0\.1)((\t[^\t]*){9}|([ \t]+[^ \t]+){9}[ \t]*)$")
"""The first word, range or empty node of CoNLL-U; editors may have replaced tabs by spaces."""

UNIVERSAL_NUMBER = re.compile(r"[0-9]+([-.][0-9]+)?")
"""The number of a word, a range (``2-3 don't``) or an empty node (``8.1``)."""

DOCUMENT = re.compile(r"-DOCSTART-(?![^ \t])")
"""A line at the beginning of a document, in CoNLL-2003."""

HASHTAG = re.compile(r"#[^ \t]")
"""The beginning of a line that is more likely a word, ``#this``, than a comment, ``# this``."""

SAME_FORM = "give a text of the same form"

WORD_A_LINE = "write a word a line, and an empty line between sentences"
PLAIN = f"{WORD_A_LINE}; lmzoo tag --text reads a sentence a line"


@dataclass(frozen=True)
class Columns:
    """The columns of words, labels and features, from 0."""

    word: int
    label: int
    features: Sequence[int] = ()


class ColumnText(LabelledText):
    """A text in columns; CoNLL-U if its name or its first word indicates it.

    Args:
        name: the name of the file, if not in ``path``.
        train: the layout of train; None if this is train.
        labelled: whether the column of labels is required. If not, lines may end before it, and the layout must
            otherwise be that of train.
        label_form: what matches it is certainly a label.

    Attributes:
        rows: the line numbers of the words of each sentence, from 0.
        separator, width: the separator of columns, and their number.

    Raises: UserError with the line number if a line has another number of columns, no word or no label, or is invalid
        in CoNLL-U; if the layout is not that of train; and as `read_text` does.
    """

    def __init__(
        self,
        path: Path,
        columns: Columns,
        name: str = "",
        train: Layout | None = None,
        labelled: bool = True,
        label_form: re.Pattern[str] | None = None,
    ):
        self.path, self.columns, self.labelled, self.label_form = path, columns, labelled, label_form
        self.train = train if train and train.separator else None
        self.lines = whole_lines(path)
        self.bare = [line.rstrip("\r\n") for line in self.lines]
        self.separator: Separator = "spaces"
        self.width = 0
        filled = [n for n, line in enumerate(self.bare) if line.strip(" \t") and not DOCUMENT.match(line)]
        ordinary = [number for number in filled if not self.bare[number].startswith("#")] or filled
        first = self.bare[ordinary[0]] if ordinary else ""
        universal = self._is_universal(name or path.name, first)
        rows = self._universal_rows() if universal else self._rows(ordinary)
        self.rows = [row for row in rows if row]
        if not self.rows:
            raise UserError(f"{path}: no words in it", "it must have a word and its label a line")
        if not labelled:
            self._check_unlabelled()
        self.sentences = [self._sentence(row) for row in self.rows]

    def written(self, labels: Iterable[Sequence[str]]) -> bytes:
        lines, column, parted = list(self.lines), self.columns.label, " " if self.separator == "spaces" else "\t"
        of_spaces = rf"[ \t]*([^ \t]+[ \t]+){{{column}}}"
        before = re.compile(of_spaces if parted == " " else rf"([^\t]*\t){{{column}}} *")
        for numbers, sentence, row in zip(self.rows, self.sentences, labels, strict=True):
            for number, old, new in zip(numbers, sentence.labels, row, strict=True):
                line, end = lines[number], len(self.bare[number])
                if self.width <= column:
                    lines[number] = f"{line[:end]}{parted}{new}{line[end:]}"
                elif columns := before.match(line):
                    lines[number] = line[: columns.end()] + line[columns.end() :].replace(old, new, 1)
        return "".join(lines).encode()

    def _fields(self, number: int) -> list[str]:
        """The columns of a line, separated by spaces or tabs only; other white space belongs to words."""
        if self.separator == "spaces":
            return [field for field in self.bare[number].replace("\t", " ").split(" ") if field]
        return [field.strip(" ") for field in self.bare[number].split("\t")]

    def _wrong(self, number: int, what: str, advice: str) -> UserError:
        return UserError(f"{self.path}: line {number + 1} {what}", advice)

    def _is_universal(self, name: str, first: str) -> bool:
        """Whether the text is CoNLL-U, by its name or its first word; raise a UserError if train differs."""
        if self.lines[0].startswith("# global.columns"):
            raise UserError(f"{self.path}: is CoNLL-U Plus, which is not supported", "write the ten columns of CoNLL-U")
        universal = text_ending(Path(name)) == ".conllu" or bool(UNIVERSAL_BEGIN.match(first))
        if self.train and (self.train.separator == "CoNLL-U") != universal:
            here, there = ("", "no ") if universal else ("no ", "")
            raise UserError(f"{self.path}: is {here}CoNLL-U, and train is {there}CoNLL-U", SAME_FORM)
        return universal

    def _universal_rows(self) -> list[list[int]]:
        """The line numbers of the words of each sentence in CoNLL-U."""
        self.separator = "CoNLL-U"
        rows: list[list[int]] = [[]]
        for number, line in enumerate(self.bare):
            if not line.strip(" \t"):
                rows.append([])
            elif not line.startswith("#"):
                fields = self._fields(number)
                if len(fields) != 10:
                    raise self._wrong(number, f"has {len(fields)} of the ten columns of CoNLL-U",
                                      "they are separated by tabs, and a comment begins with #")  # fmt: skip
                if not UNIVERSAL_NUMBER.fullmatch(fields[0]):
                    what = f"begins with '{shortened(fields[0], 40)}', no number of CoNLL-U"
                    advice = "it must be one of a word, 2, of a range, 2-3, or an empty node, 8.1"
                    raise self._wrong(number, what, advice)
                if fields[0].isdecimal():
                    if fields[0] != (next_one := str(len(rows[-1]) + 1)):
                        what = f"is word {shortened(fields[0], 20)}, and {next_one} comes next"
                        raise self._wrong(number, what, "an empty line ends a sentence, and no other stands in it")
                    rows[-1].append(number)
        if words := [number for row in rows for number in row]:
            self._set_width(words[0], "columns are separated by tabs")
        return rows

    def _rows(self, ordinary: Sequence[int]) -> list[list[int]]:
        """The line numbers of the words of each sentence in other columns, separated by tabs if any line has one.

        ``ordinary`` are the non-empty lines that neither begin a document nor begin with #, unless all do.
        """
        tabs = next((number for number in ordinary if "\t" in self.lines[number]), None)
        self.separator = "spaces" if tabs is None else "tabs"
        if self.train and not self.labelled:
            self.separator = self.train.separator or self.separator
            if tabs is not None and self.separator == "spaces":
                raise self._wrong(tabs, "has a tab, and the run was trained on columns separated by spaces", SAME_FORM)
        parted_by = f"columns are separated by {self.separator}"
        if tabs is not None:
            parted_by += f", as in line {tabs + 1}"
        if ordinary:
            self._set_width(ordinary[0], parted_by)
        labels = self._labels(ordinary) | {"#"}
        rows: list[list[int]] = [[]]
        comments = documents = 0
        for number, line in enumerate(self.bare):
            if not line.strip(" \t"):
                rows.append([])
            elif DOCUMENT.match(line):
                rows.append([])
                documents += 1
            elif not line.startswith("#"):
                if (width := len(self._fields(number))) != self.width:
                    first = f"line {ordinary[0] + 1} has {self.width}"
                    raise self._wrong(
                        number, f"has {pluralize(width, 'column')}, and {first}; {parted_by}", WORD_A_LINE
                    )
                rows[-1].append(number)
            elif self._is_word(number, not rows[-1], labels):
                rows[-1].append(number)
            else:
                comments += 1
        counts = {"comment": comments, "-DOCSTART- line": documents}
        self.left_out = " and ".join(pluralize(count, what) for what, count in counts.items() if count)
        return rows

    def _labels(self, ordinary: Sequence[int]) -> set[str]:
        """The labels of train, and of lines that are certainly words: those that do not begin with #, or that follow
        such a line and begin with a # attached to a word.
        """
        certain = {number for number in ordinary if not self.lines[number].startswith("#")}
        below = {number + 1 for number in certain} & {*range(len(self.lines))}
        certain |= {number for number in below if HASHTAG.match(self.bare[number])}
        rows = [fields for fields in map(self._fields, certain) if len(fields) == self.width]
        return {fields[self.telling].strip() for fields in rows} | set(self.train.labels if self.train else [])

    def _is_word(self, number: int, begins: bool, labels: Collection[str]) -> bool:
        """Whether a line that begins with # is a word, not a comment.

        A word has the number of columns and a label of other words. A comment has another number of columns, or
        precedes the first word of a sentence.

        Raises: UserError if it could be both.
        """
        fields, tag = self._fields(number), bool(HASHTAG.match(self.bare[number]))
        if len(fields) == self.width and (self.width > 1 or fields[0] == "#" or tag):
            label = fields[self.telling].strip()
            if self.width == 1 or label in labels or (self.label_form and self.label_form.fullmatch(label)):
                return True
            if begins and not tag:
                return False
        elif begins or not tag:
            return False
        raise self._wrong(number, "may be a word or a comment, which begins with #",
                          "take the comment away, or give the word a label that another word has")  # fmt: skip

    def _set_width(self, number: int, parted_by: str) -> None:
        """Set the number of columns from a line, after comparison with the required columns and those of the run."""
        word, label, features = self.columns.word, self.columns.label, list(self.columns.features)
        self.width = len(self._fields(number))
        self.telling = min(label, self.width - 1)
        """The column that distinguishes words from comments: that of labels, or else the last one."""
        needed = 1 + max(word, label - (not self.labelled), *features)
        if self.width < needed:
            names = f"task.word={word}, task.label={label} and task.features={features} name them, 0 the first"
            few = f"has {self.width} of the {needed} columns that are needed"
            raise self._wrong(number, few, f"{names}; {parted_by}")
        if not self.labelled and self.train and self.width not in (label, self.train.width):
            unlike = f"has {pluralize(self.width, 'column')}, and the run was trained on {self.train.width}"
            raise self._wrong(number, unlike, PLAIN)

    def _check_unlabelled(self) -> None:
        """Reject a text with a sentence per line, which would be read as a word, or whose words as labels."""
        label, words = self.columns.label, [number for row in self.rows for number in row]
        sentences = [number for number in words if self.width == 1 and len(self.bare[number].split()) > 1]
        if 2 * len(sentences) > len(words):
            raise self._wrong(sentences[0], "has several words in its only column", PLAIN)
        if label >= self.width or self.separator == "CoNLL-U" or not self.train:
            return
        strangers = [n for n in words if looks_like_word(self._fields(n)[label].strip(), self.train.labels)]
        if 2 * len(strangers) > len(words):
            word = shortened(self._fields(strangers[0])[label], 40)
            unknown = f"has '{word}' as a label, which the run does not have"
            raise self._wrong(strangers[0], unknown, f"{WORD_A_LINE}; _ is no label")

    def _sentence(self, row: Sequence[int]) -> Sentence:
        """The sentence with the words of these lines."""
        sentence = Sentence([], [], [])
        for number in row:
            fields = self._fields(number)
            word = fields[self.columns.word]
            label = fields[self.columns.label].strip() if self.columns.label < self.width else ""
            if not word or (self.labelled and not label):
                raise self._wrong(number, f"has no {'label' if word else 'word'} in its column", "fill it in")
            sentence.words.append(word)
            sentence.labels.append(label)
            sentence.features.append([fields[column] for column in self.columns.features])
        return sentence
