"""How labels of words tell where entities are: Ratinov & Roth, "Design challenges and misconceptions in named entity
recognition", CoNLL 2009, section 4.1, https://aclanthology.org/W09-1119.
"""

from collections.abc import Sequence

from lmzoo.labels.metrics import entities


def iobes(labels: Sequence[str]) -> list[str]:
    """Labels of the same entities: B-X, I-X … E-X, or S-X for one word, and O outside."""
    found = iob(labels)
    for _, begin, end in entities(labels):
        last = "S" if end - begin == 1 else "E"
        found[end - 1] = last + found[end - 1][1:]
    return found


def iob(labels: Sequence[str]) -> list[str]:
    """Labels of the same entities: B-X, I-X …, and O outside."""
    found = ["O"] * len(labels)
    for kind, begin, end in entities(labels):
        found[begin:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - begin - 1)]
    return found
