"""How good labels are: accuracy, and precision, recall and F1 of entities."""

from collections.abc import Callable, Collection, Sequence

from lmzoo.labels.formats import Sentence
from lmzoo.labels.schemes import Entity


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


def entity_f1(
    sentences: Sequence[Sentence],
    predicted: Sequence[Sequence[str]],
    entities: Callable[[Sequence[str]], Collection[Entity]],
) -> dict[str, float]:
    """Precision, recall and F1 of the entities of labels, right in type and both ends; 0 where there are none."""
    right = ours = gold = 0
    for sentence, labels in zip(sentences, predicted, strict=True):
        here, there = {*entities(sentence.labels)}, {*entities(labels)}
        right, ours, gold = right + len(here & there), ours + len(there), gold + len(here)
    return {
        "precision": right / max(ours, 1),
        "recall": right / max(gold, 1),
        "f1": 2 * right / max(ours + gold, 1),
    }
