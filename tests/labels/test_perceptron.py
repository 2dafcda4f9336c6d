"""The averaged perceptron beside enumeration, and its weights beside the mean that is kept in full."""

import re
from itertools import pairwise, product

import numpy as np
import pytest

from lmzoo.labels import perceptron
from lmzoo.labels.formats import Sentence
from lmzoo.labels.lexical import templates
from lmzoo.labels.perceptron import Perceptron, best_path


@pytest.mark.parametrize("length", [1, 2, 5])
def test_the_best_path_is_the_best_of_all(length: int):
    random = np.random.default_rng(length)
    emissions, moves, start = random.normal(size=(length, 3)), random.normal(size=(3, 3)), random.normal(size=3)

    def score(path: tuple[int, ...]) -> float:
        here = sum(float(emissions[t, k]) for t, k in enumerate(path))
        return here + start[path[0]] + sum(float(moves[pair]) for pair in pairwise(path))

    assert tuple(best_path(emissions, moves, start)) == max(product(range(3), repeat=length), key=score)


def sentences() -> list[Sentence]:
    found = []
    for line in ["a/X b/Y c/X", "b/X b/Y", "c/Y a/X a/Y", "a/Y"]:
        words, labels = zip(*(pair.split("/") for pair in line.split()), strict=True)
        found.append(Sentence(list(words), list(labels), [[] for _ in words]))
    return found


def test_weights_are_the_mean_over_all_sentences(monkeypatch: pytest.MonkeyPatch):
    before: list[list[np.ndarray]] = []

    def noting(*arguments: np.ndarray) -> np.ndarray:
        before.append([table.copy() for table in model._tables(model.live)])
        return best_path(*arguments)

    monkeypatch.setattr(perceptron, "best_path", noting)
    model = Perceptron(epochs=5, min_count=1, clusters=None)
    model.start(sentences(), seed=1)
    for epoch in range(5):
        model.step(epoch)
    assert len(before) == 20
    for table, states, last in zip(model.weights, zip(*before, strict=True), model._tables(model.live), strict=True):
        assert table.abs().sum() > 0
        assert table.numpy() == pytest.approx(np.mean([*states[1:], last], axis=0), abs=1e-6)


def test_live_weights_are_the_features_gained_less_those_lost(monkeypatch: pytest.MonkeyPatch):
    """A step of Collins's Figure 1 done word by word."""
    model = Perceptron(epochs=1, min_count=1, clusters=None)
    model.start(sentences()[:1], seed=0)
    monkeypatch.setattr(perceptron, "best_path", lambda *_: np.array([0, 0, 1]))  # X X Y; right is X Y X
    model.step(0)
    table, moves, start = model._tables(model.live)
    expected = np.zeros_like(table)
    for word, (gold, found) in enumerate(zip([0, 1, 0], [0, 0, 1], strict=True)):
        for name in templates(sentences()[0], {})[word]:
            expected[model.lexical.numbers[name], gold] += 1
            expected[model.lexical.numbers[name], found] -= 1
    assert (table == expected).all()
    assert moves.tolist() == [[-1, 0], [1, 0]]
    assert start.tolist() == [0, 0]


def test_features_of_a_word():
    rows = templates(Sentence(["The", "B-52s"], [], [["DT"], ["NN"]]), {"the": "010010011"})
    assert {"W=The", "w-1=<>", "w1=b-52s", "<=Th", ">=he", "shape=Aa", "0t1=NN", "0t0,1=DT NN"} <= set(rows[0])
    assert "shape=A-0a" in rows[1]
    assert {"c0,4=0100", "c0,6=010010", "c0,10=010010011", "c0,20=010010011"} <= set(rows[0])
    assert {name for name in rows[1] if re.match(r"c-?\d,", name)} == {
        "c-1,4=0100", "c-1,6=010010", "c-1,10=010010011", "c-1,20=010010011",
    }  # fmt: skip
