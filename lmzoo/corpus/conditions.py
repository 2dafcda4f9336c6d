"""Lines that begin with a label, their condition: ``label TAB text``."""

from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, shortened
from lmzoo.corpus.vocabulary import Vocabulary

SHOWN = 100
"""Signs of a message that name the labels there are."""


def label_and_text(line: str) -> tuple[str | None, str]:
    """A line ``label TAB text`` -> both; None where there is no tab. Blanks around a label are no part of it."""
    label, tab, text = line.partition("\t")
    return (label.strip(), text) if tab else (None, line)


def parted(lines: Sequence[str], where: str) -> tuple[list[str], list[str]]:
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


Texts = Mapping[str, Sequence[tuple[str, bytes]]]
"""Of each split: texts in UTF-8, every line closed, each with its name."""


def without_labels(texts: Texts, known: Sequence[str]) -> tuple[Texts, Sequence[str], dict[str, Tensor]]:
    """Texts whose lines begin with labels -> the same without them, all labels, and the conditions of each split.

    Args:
        known: the labels that there may be; where there are none, those of train, the most frequent first.

    Raises: UserError as `parted` and `numbered` do.
    """
    found = {
        split: [(name, *parted(data.decode().removesuffix("\n").split("\n"), name)) for name, data in parts]
        for split, parts in texts.items()
    }
    counts = Counter(label for _, labels, _ in found["train"] for label in labels)
    known = known or [label for label, _ in counts.most_common()]
    conditions = {
        split: torch.cat([numbered(labels, known, name) for name, labels, _ in parts]) for split, parts in found.items()
    }
    plain = {
        split: [(name, "".join(f"{line}\n" for line in lines).encode()) for name, _, lines in parts]
        for split, parts in found.items()
    }
    return plain, known, conditions


def numbered(labels: Sequence[str], known: Sequence[str], where: str) -> Tensor:
    """(L,) int64 places of labels among the known ones.

    Raises: UserError that names the line of an unknown one.
    """
    index = {label: number for number, label in enumerate(known)}
    for number, label in enumerate(labels, 1):
        if label not in index:
            raise unknown(label, known, f"{where}, line {number}")
    return torch.tensor([index[label] for label in labels], dtype=torch.int64)


def unknown(label: str, known: Sequence[str], where: str) -> UserError:
    """What to say of a label that train does not have."""
    return UserError(
        f"{where}: no line of train has the label '{shortened(label, 40)}'",
        f"there are: {shortened(', '.join(known), SHOWN)}",
    )


def chosen(label: str | None, vocabulary: Vocabulary) -> int | None:
    """The number of a label that a user asks for; None where there is none.

    Raises: UserError for one that is not known, and for any where lines have no labels.
    """
    if label is None:
        return None
    if not vocabulary.conditions:
        raise UserError(f"condition '{shortened(label)}': the run's lines have no labels", "leave it out")
    if label not in vocabulary.conditions:
        raise unknown(label, vocabulary.conditions, "condition")
    return vocabulary.conditions.index(label)
