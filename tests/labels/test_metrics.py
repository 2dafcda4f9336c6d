"""Entities counted by hand, as conlleval counts them."""

import pytest

from lmzoo.labels.formats import Sentence
from lmzoo.labels.metrics import accuracy, entity_f1, unknown_accuracy
from lmzoo.labels.schemes import entities


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("B-NP I-NP O B-NP", {("NP", 0, 2), ("NP", 3, 4)}),
        ("B-NP B-NP", {("NP", 0, 1), ("NP", 1, 2)}),
        ("I-NP I-NP O I-VP", {("NP", 0, 2), ("VP", 3, 4)}),
        ("B-NP I-VP I-VP", {("NP", 0, 1), ("VP", 1, 3)}),
        ("S-NP I-NP E-NP", {("NP", 0, 1), ("NP", 1, 3)}),
        ("O O", set()),
        ("B-NP E-NP I-NP", {("NP", 0, 2), ("NP", 2, 3)}),
    ],
)
def test_entities_begin_and_end_where_conlleval_has_them(labels: str, expected: set):
    assert entities(labels.split()) == expected


def test_figures_of_a_sentence_counted_by_hand():
    gold = [Sentence(["a", "b", "c", "d", "e"], ["B-X", "I-X", "O", "B-Y", "I-Y"], [[]] * 5)]
    ours = [["B-X", "I-X", "B-Y", "B-Y", "O"]]  # found: X at 0-2, Y at 2-3 and at 3-4; X is right
    assert entity_f1(gold, ours, entities) == {
        "precision": 1 / 3,
        "recall": 1 / 2,
        "f1": 2 / 5,
        "types": {
            "X": {"precision": 1, "recall": 1, "f1": 1, "found": 1},
            "Y": {"precision": 0, "recall": 0, "f1": 0, "found": 2},
        },
    }
    assert accuracy(gold, ours) == 3 / 5
    assert unknown_accuracy(gold, ours, {"a", "b", "d"}) == 0
    assert unknown_accuracy(gold, ours, set("abcde")) is None
