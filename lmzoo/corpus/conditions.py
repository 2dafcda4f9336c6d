"""Lines that begin with a label, their condition: ``label TAB text``."""

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, shortened
from lmzoo.corpus.vocabulary import Vocabulary, utf8

SHOWN = 100
"""The length of the list of labels in a message, in characters."""

MANY_LINES = 20
"""The minimum number of lines for a warning that a label only in the first line may be a column name."""

NamedTexts = Mapping[str, Sequence[tuple[str, bytes]]]
"""The texts of each split, with names, in UTF-8 with terminated lines."""


def label_and_text(line: str) -> tuple[str | None, str]:
    """Split a line ``label TAB text``; the label is None without a tab. White space around the label is removed."""
    label, tab, text = line.partition("\t")
    return (label.strip(), text) if tab else (None, line)


def unlabelled(lines: Sequence[str], vocabulary: Vocabulary, where: str) -> bytes:
    """`utf8` of lines without labels; raise a UserError if a line begins with a label of the vocabulary."""
    data = utf8(lines, where)
    for label, _ in map(label_and_text, lines if vocabulary.conditions else ()):
        if label in vocabulary.conditions:
            raise UserError(f"{where}: begins with the label '{label}' and a tab", "leave both out")
    return data


def split_labels(lines: Sequence[str], where: str) -> tuple[list[str], list[str]]:
    """Split lines into their labels and their texts.

    Args:
        where: the name of the text for errors.

    Raises: UserError if a line has no label.
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
    """Remove the labels of lines. Returns: the texts, all labels, and the conditions of each split.

    Args:
        labels: the allowed labels; if empty, those of train, the most frequent first.

    Raises: UserError as `split_labels` and `label_numbers` do.
    """
    parts = {
        split: [(name, *split_labels(data.decode().removesuffix("\n").split("\n"), name)) for name, data in each]
        for split, each in texts.items()
    }
    counts = Counter(label for _, of_lines, _ in parts["train"] for label in of_lines)
    labels = labels or [label for label, _ in counts.most_common()]
    conditions = {
        split: torch.cat([label_numbers(of_lines, labels, name) for name, of_lines, _ in each])
        for split, each in parts.items()
    }
    plain = {
        split: [(name, "".join(f"{line}\n" for line in lines).encode()) for name, _, lines in each]
        for split, each in parts.items()
    }
    return plain, labels, conditions


def label_counts(counts: Counter[str]) -> str:
    """Format the frequencies of labels in train, the most frequent first, for the log."""
    return f"labels of train: {shortened(', '.join(f'{label} {n:,}' for label, n in counts.most_common()), 200)}"


def header_warning(first: str, counts: Counter[str]) -> str | None:
    """A warning if only the first line of train has its label."""
    if counts[first] > 1 or counts.total() < MANY_LINES:
        return None
    return f"train has the label '{shortened(first, 40)}' only in its first line; is that line a header?"


def label_numbers(of_lines: Sequence[str], labels: Sequence[str], where: str) -> Tensor:
    """(L,) int64 indices of the labels of lines; raise a UserError with the line number of an unknown label."""
    index = {label: number for number, label in enumerate(labels)}
    for number, label in enumerate(of_lines, 1):
        if label not in index:
            raise _unknown(label, labels, f"{where}, line {number}")
    return torch.tensor([index[label] for label in of_lines], dtype=torch.int64)


def _unknown(label: str, labels: Sequence[str], where: str) -> UserError:
    return UserError(
        f"{where}: no line of train has the label '{shortened(label, 40)}'",
        f"choose from: {shortened(', '.join(labels), SHOWN)}",
    )


def label_number(label: str | None, vocabulary: Vocabulary) -> int | None:
    """The index of a user's label, or None; raise a UserError if no line has the label."""
    if label is None:
        return None
    if not vocabulary.conditions:
        raise UserError(f"condition '{shortened(label)}': the run's lines have no labels", "leave it out")
    if label not in vocabulary.conditions:
        raise _unknown(label, vocabulary.conditions, "condition")
    return vocabulary.conditions.index(label)
