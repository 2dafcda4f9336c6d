"""How good labels are: accuracy, and F1 of entities as conlleval counts them (Tjong Kim Sang & Buchholz 2000)."""

from collections.abc import Collection, Sequence

from lmzoo.labels.formats import Sentence

Entity = tuple[str, int, int]
"""Its type, its first word, and the word after its last."""


def accuracy(sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]]) -> float:
    """The share of words whose label is right."""
    right = [a == b for gold, ours in zip(sentences, predicted, strict=True)
             for a, b in zip(gold.labels, ours, strict=True)]  # fmt: skip
    return sum(right) / len(right)


def unknown_accuracy(
    sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]], known: Collection[str]
) -> float | None:
    """`accuracy` of the words that are not known; None where all are."""
    right = [a == b for gold, ours in zip(sentences, predicted, strict=True)
             for word, a, b in zip(gold.words, gold.labels, ours, strict=True) if word not in known]  # fmt: skip
    return sum(right) / len(right) if right else None


def entities(labels: Sequence[str]) -> set[Entity]:
    """The entities of a sentence, labelled by B-X, I-X, E-X, S-X and O.

    As in conlleval an entity begins at B or S, after O, after E or S, and where the type changes. So an I- without a
    beginning counts as one.
    """
    found: set[Entity] = set()
    begin, before, kind = 0, "O", ""
    for place, label in enumerate([*labels, "O"]):
        sign, _, type_ = label.partition("-")
        goes_on = before not in "OES" and sign in ("I", "E") and type_ == kind
        if before != "O" and not goes_on:
            found.add((kind, begin, place))
        if sign != "O" and not goes_on:
            begin = place
        before, kind = sign, type_
    return found


def entity_f1(sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """Precision, recall and F1 of entities; an entity is right where its type and both ends are. Nothing found is 0."""
    right = ours = gold = 0
    for sentence, labels in zip(sentences, predicted, strict=True):
        here, there = entities(sentence.labels), entities(labels)
        right, ours, gold = right + len(here & there), ours + len(there), gold + len(here)
    return {
        "precision": right / max(ours, 1),
        "recall": right / max(gold, 1),
        "f1": 2 * right / max(ours + gold, 1),
    }
