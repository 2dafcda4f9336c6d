"""The linear chain beside enumeration, and its averaged weights beside the mean that is kept in full."""

from itertools import pairwise, product

import numpy as np
import pytest

from lmzoo.labels.crf import Crf, best_path
from lmzoo.labels.formats import Sentence
from lmzoo.labels.templates import templates


@pytest.mark.parametrize("length", [1, 2, 5])
def test_the_best_path_is_the_best_of_all(length: int):
    random = np.random.default_rng(length)
    emissions, moves, start = random.normal(size=(length, 3)), random.normal(size=(3, 3)), random.normal(size=3)

    def score(path: tuple[int, ...]) -> float:
        here = sum(float(emissions[t, k]) for t, k in enumerate(path))
        return here + start[path[0]] + sum(float(moves[pair]) for pair in pairwise(path))

    assert tuple(best_path(emissions, moves, start)) == max(product(range(3), repeat=length), key=score)


def test_weights_are_the_mean_over_all_sentences(monkeypatch: pytest.MonkeyPatch):
    text = ["a/X b/Y c/X", "b/X b/Y", "c/Y a/X a/Y", "a/Y"]
    sentences = []
    for line in text:
        words, labels = zip(*(pair.split("/") for pair in line.split()), strict=True)
        sentences.append(Sentence(list(words), list(labels), [[] for _ in words]))
    before, live = [], []
    whole = Crf._best

    def best(rows, weights):
        before.append([table.copy() for table in weights])
        live[:] = weights  # the tables themselves, which end as the last sentence leaves them
        return whole(rows, weights)

    monkeypatch.setattr(Crf, "_best", staticmethod(best))
    model = Crf(epochs=5, min_count=1)
    model.fit(sentences, seed=1)
    assert len(before) == 20
    for table, states, last in zip(model.weights, zip(*before, strict=True), live, strict=True):
        assert np.abs(table).sum() > 0
        assert table == pytest.approx(np.mean([*states[1:], last], axis=0))


def test_features_of_a_word():
    rows = templates(Sentence(["The", "B-52s"], [], [["DT"], ["NN"]]))
    assert {"W=The", "w-1=<>", "w1=b-52s", "<=Th", ">=he", "shape=Aa", "0t1=NN", "0t0,1=DT NN"} <= set(rows[0])
    assert "shape=A-0a" in rows[1]
