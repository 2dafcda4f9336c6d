"""Labelling schemes of entities: Ratinov & Roth, "Design challenges and misconceptions in named entity recognition",
CoNLL 2009, section 4.1, https://aclanthology.org/W09-1119.
"""

import re
from collections.abc import Collection, Sequence
from typing import Literal, NamedTuple

Entity = tuple[str, int, int]
"""Type, index of the first word, and index after the last."""

SchemeName = Literal["IOB1", "IOB2", "IOE1", "IOE2", "IOBES", "BILOU", "BMES"]

LABEL = re.compile(r"O|[BIMELSU](-.+)?")
"""A letter and a type; the type is omitted if there is only one."""


def entities(labels: Sequence[str]) -> set[Entity]:
    """The entities of a sentence as in conlleval, extended to the letters of all schemes.

    One begins at B, S or U, after O, E, L, S or U, and where the type changes: an I- without a beginning counts.
    """
    complete: set[Entity] = set()
    begin, before, kind = 0, "O", ""
    for place, label in enumerate([*labels, "O"]):
        letter, _, type_ = label.partition("-")
        goes_on = before not in "OESLU" and letter in "IMEL" and type_ == kind
        if before != "O" and not goes_on:
            complete.add((kind, begin, place))
        if letter != "O" and not goes_on:
            begin = place
        before, kind = letter, type_
    return complete


class Scheme(NamedTuple):
    """The letters of an entity's first, inner and last word, and of an entity of one word.

    Attributes:
        touching: whether the letter at an end is used only between adjacent entities of a type, and I otherwise.
    """

    name: SchemeName
    first: str
    inner: str
    last: str
    single: str
    touching: bool = False

    def labels(self, of: Collection[Entity], length: int) -> list[str]:
        """The labels of ``length`` words with these entities; O outside."""
        begins, ends = {(kind, begin) for kind, begin, _ in of}, {(kind, end) for kind, _, end in of}
        labels = ["O"] * length
        for kind, begin, end in of:
            letters = [self.first, *self.inner * (end - begin - 2), self.last] if end - begin > 1 else [self.single]
            met = (kind, begin) in ends if self.single == self.first else (kind, end) in begins
            if self.touching and not met:
                letters = [self.inner] * len(letters)
            labels[begin:end] = [f"{letter}-{kind}" if kind else letter for letter in letters]
        return labels

    def strict(self, labels: Sequence[str]) -> set[Entity]:
        """The `entities` whose labels are exactly those of the scheme."""
        every = entities(labels)
        right = self.labels(every, len(labels))
        return {entity for entity in every if right[entity[1] : entity[2]] == [*labels[entity[1] : entity[2]]]}

    def entities(self, labels: Sequence[str]) -> set[Entity]:
        """The entities that count: all in IOB, for which conlleval is made, else the `strict` ones."""
        return entities(labels) if self in IOB else self.strict(labels)

    def outside(self, labels: Sequence[str]) -> list[int]:
        """The indices of labels other than O outside `strict` entities."""
        inside = {place for _, begin, end in self.strict(labels) for place in range(begin, end)}
        return [place for place, label in enumerate(labels) if label != "O" and place not in inside]

    def translated(self, labels: Sequence[str], other: "Scheme") -> list[str]:
        """Convert labels to another scheme for the same entities; letter by letter if both have four letters."""
        if len({*self[1:5]}) == len({*other[1:5]}) == 4:
            letters = dict(zip(self[1:5], other[1:5], strict=True)) | {"O": "O"}
            return [letters[label[0]] + label[1:] for label in labels]
        return other.labels(entities(labels), len(labels))


IOB2 = Scheme("IOB2", "B", "I", "I", "B")
IOBES = Scheme("IOBES", "B", "I", "E", "S")
IOB = (IOB2, Scheme("IOB1", "B", "I", "I", "B", touching=True))
IOE = (Scheme("IOE2", "I", "I", "E", "E"), Scheme("IOE1", "I", "I", "E", "E", touching=True))
FAMILIES = (IOB, IOE, (IOBES,), (Scheme("BILOU", "B", "I", "L", "U"),), (Scheme("BMES", "B", "M", "E", "S"),))
"""Schemes by sets of letters. Labels that fit several schemes are assigned to the first."""

SCHEMES = {scheme.name: scheme for family in FAMILIES for scheme in family}


def family(letters: set[str]) -> tuple[Scheme, ...]:
    """The schemes with these letters; empty if there is none."""
    return next((schemes for schemes in FAMILIES if letters <= {"O", *schemes[0][1:5]}), ())
