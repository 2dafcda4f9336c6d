"""Lines that begin with a label, their condition: ``label TAB text``."""

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, shortened
from lmzoo.corpus.vocabulary import Vocabulary, utf8

SHOWN = 100
"""Characters of a message that name the labels there are."""

MANY_LINES = 20
"""Of labels, among which one that only the first line has is rather the name of a column."""

NamedTexts = Mapping[str, Sequence[tuple[str, bytes]]]
"""Of each split: texts in UTF-8, every line closed, each with its name."""


def label_and_text(line: str) -> tuple[str | None, str]:
    """A line ``label TAB text`` -> both; None where there is no tab. Blanks around a label are no part of it."""
    label, tab, text = line.partition("\t")
    return (label.strip(), text) if tab else (None, line)


def unlabelled(lines: Sequence[str], vocabulary: Vocabulary, where: str) -> bytes:
    """`utf8` of lines that are read without labels; a UserError, too, where a label would be read as a word."""
    data = utf8(lines, where)
    for label, _ in map(label_and_text, lines if vocabulary.conditions else ()):
        if label in vocabulary.conditions:
            raise UserError(f"{where}: begins with the label '{label}' and a tab", "leave both out")
    return data


def split_labels(lines: Sequence[str], where: str) -> tuple[list[str], list[str]]:
    """The label of each line, and the lines without labels.

    Args:
        where: the name of the text in an error.

    Raises: UserError for a line without a label.
    """
    labels, texts = [], []
    for number, line in enumerate(lines, 1):
        label, text = label_and_text(line)
        if not label:
            missing = "has no tab" if label is None else "has no label before its tab"
            raise UserError(f"{where}, line {number}: {missing}", "a line is a label, a tab, and a text")
        labels.append(label)
        texts.append(text)
    return labels, texts


def without_labels(texts: NamedTexts, labels: Sequence[str]) -> tuple[NamedTexts, Sequence[str], dict[str, Tensor]]:
    """Texts whose lines begin with labels -> the same without them, all labels, and the conditions of each split.

    Args:
        labels: those that there may be; where there are none, those of train, the most frequent first.

    Raises: UserError as `split_labels` and `label_numbers` do.
    """
    parts = {
        split: [(name, *split_labels(data.decode().removesuffix("\n").split("\n"), name)) for name, data in named]
        for split, named in texts.items()
    }
    counts = Counter(label for _, of_lines, _ in parts["train"] for label in of_lines)
    labels = labels or [label for label, _ in counts.most_common()]
    conditions = {
        split: torch.cat([label_numbers(of_lines, labels, name) for name, of_lines, _ in named])
        for split, named in parts.items()
    }
    plain = {
        split: [(name, "".join(f"{line}\n" for line in lines).encode()) for name, _, lines in named]
        for split, named in parts.items()
    }
    return plain, labels, conditions


def label_counts(counts: Counter[str]) -> str:
    """How often each label is in train, the most frequent first, for the log."""
    return f"labels of train: {shortened(', '.join(f'{label} {n:,}' for label, n in counts.most_common()), 200)}"


def header_warning(first: str, counts: Counter[str]) -> str | None:
    """A warning where only the first line of train has its label."""
    if counts[first] > 1 or counts.total() < MANY_LINES:
        return None
    return f"train has the label '{shortened(first, 40)}' in its first line alone; is that line a header?"


def label_numbers(of_lines: Sequence[str], labels: Sequence[str], where: str) -> Tensor:
    """(L,) int64 places of the labels of lines among all labels; a UserError that names the line of another one."""
    index = {label: number for number, label in enumerate(labels)}
    for number, label in enumerate(of_lines, 1):
        if label not in index:
            raise _unknown(label, labels, f"{where}, line {number}")
    return torch.tensor([index[label] for label in of_lines], dtype=torch.int64)


def _unknown(label: str, labels: Sequence[str], where: str) -> UserError:
    return UserError(
        f"{where}: no line of train has the label '{shortened(label, 40)}'",
        f"there are: {shortened(', '.join(labels), SHOWN)}",
    )


def label_number(label: str | None, vocabulary: Vocabulary) -> int | None:
    """The number of a label that a user asks for, if any; a UserError for one that the lines do not have."""
    if label is None:
        return None
    if not vocabulary.conditions:
        raise UserError(f"condition '{shortened(label)}': the run's lines have no labels", "leave it out")
    if label not in vocabulary.conditions:
        raise _unknown(label, vocabulary.conditions, "condition")
    return vocabulary.conditions.index(label)
