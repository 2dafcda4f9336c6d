"""Measures: accuracy, and precision, recall and F1 of entities."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any

from lmzoo.labels.formats import Sentence
from lmzoo.labels.schemes import Entity


def accuracy(sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]]) -> float:
    """The fraction of words with the correct label."""
    right = [a == b for gold, ours in zip(sentences, predicted, strict=True)
             for a, b in zip(gold.labels, ours, strict=True)]  # fmt: skip
    return sum(right) / len(right)


def unknown_accuracy(
    sentences: Sequence[Sentence], predicted: Sequence[Sequence[str]], known: Collection[str]
) -> float | None:
    """`accuracy` of unknown words; None if all are known."""
    right = [a == b for gold, ours in zip(sentences, predicted, strict=True)
             for word, a, b in zip(gold.words, gold.labels, ours, strict=True) if word not in known]  # fmt: skip
    return sum(right) / len(right) if right else None


def entity_f1(
    sentences: Sequence[Sentence],
    predicted: Sequence[Sequence[str]],
    entities: Callable[[Sequence[str]], Collection[Entity]],
) -> dict[str, Any]:
    """Precision, recall and F1 of entities, where type and both ends must agree; 0 if there are none.

    ``types`` has them for each type, with the number ``found`` of that type in ``predicted``.
    """
    right, ours, gold = Counter(), Counter(), Counter()
    for sentence, labels in zip(sentences, predicted, strict=True):
        here, there = {*entities(sentence.labels)}, {*entities(labels)}
        for counts, some in ((right, here & there), (ours, there), (gold, here)):
            counts.update(kind for kind, _, _ in some)
    types = {kind: {**_f1(right[kind], ours[kind], gold[kind]), "found": ours[kind]} for kind in sorted(ours | gold)}
    return {**_f1(right.total(), ours.total(), gold.total()), "types": types}


def _f1(right: int, ours: int, gold: int) -> dict[str, float]:
    return {"precision": right / max(ours, 1), "recall": right / max(gold, 1), "f1": 2 * right / max(ours + gold, 1)}
