"""TnT's parts beside brute force and counts made by hand."""

from itertools import pairwise, product

import numpy as np
import pytest

from lmzoo.labels.formats import Sentence
from lmzoo.labels.hmm_tagger import HmmTagger, Suffixes, deleted_interpolation, transitions, viterbi


@pytest.mark.parametrize("length", [1, 2, 5])
def test_viterbi_finds_the_best_of_all_paths(length: int):
    random = np.random.default_rng(length)
    scores = random.normal(size=(4, 4, 4))
    candidates = [(np.array(states), random.normal(size=len(states))) for states in ([0, 1, 2], [1], [0, 2])] * 2
    candidates = candidates[:length]

    def score(path: tuple[int, ...]) -> float:
        row = [3, 3, *(int(c[0][i]) for c, i in zip(candidates, path, strict=True)), 3]
        moves = sum(scores[a, b, c] for (a, b), (_, c) in pairwise(pairwise(row)))
        return moves + sum(float(c[1][i]) for c, i in zip(candidates, path, strict=True))

    best = max(product(*(range(len(states)) for states, _ in candidates)), key=score)
    assert viterbi(scores, candidates, edge=3) == [int(c[0][i]) for c, i in zip(candidates, best, strict=True)]


def test_transitions_are_shares_of_three_orders_and_sum_to_one():
    rows = [[2, 2, 0, 1, 0, 1, 2], [2, 2, 0, 0, 1, 2]]
    triple = np.zeros((3, 3, 3))
    for row in rows:
        for a, b, c in zip(row, row[1:], row[2:], strict=False):
            triple[a, b, c] += 1
    weights = deleted_interpolation(triple.sum((0, 1)), triple.sum(0), triple)
    p = np.exp(transitions(rows, 3))
    seen = triple.sum(2) > 0
    assert p.sum(2)[seen] == pytest.approx(1)
    # after 0 0 came 1, once; after 0 came 1 three times of four; 1 is 3 of 9 tags
    assert p[0, 0, 1] == pytest.approx(weights @ [3 / 9, 3 / 4, 1])


def test_every_order_of_tags_is_possible():
    rows = [[3, 3, 0, 1, 2, 3]] * 9
    assert deleted_interpolation(*(np.ones((4,) * n) for n in (1, 2, 3))).sum() == pytest.approx(1)
    assert np.isfinite(transitions(rows, 4)).all()


def test_deleted_interpolation_counted_by_hand():
    triple = np.zeros((2, 2, 2))
    triple[0, 0, 1], triple[0, 0, 0], triple[1, 0, 1] = 1, 1, 3
    # 1 is 4 of 5 tags, and 4 of 5 after 0. Less the trigram itself:
    # 0 0 1: 3/4, 3/4, 0/1, so the unigram; 0 0 0: 0/4, 0/4, 0/1, so the unigram; 1 0 1: 3/4, 3/4, 2/2, so the trigram
    assert deleted_interpolation(triple.sum((0, 1)), triple.sum(0), triple).tolist() == [2 / 5, 0, 3 / 5]


def test_endings_mix_their_shares_with_shorter_ones():
    found = Suffixes({"as": np.array([1.0, 0]), "is": np.array([0, 2.0]), "at": np.array([1.0, 0])}, 2, theta=0.5)
    shortest = np.array([2, 2]) / 4
    s = (np.array([1, 2]) / 3 + 0.5 * shortest) / 1.5
    assert found.shares("bus").tolist() == pytest.approx(s.tolist())
    assert found.shares("as").tolist() == pytest.approx(((np.array([1, 0]) + 0.5 * s) / 1.5).tolist())


def test_a_tagger_uses_context_and_endings():
    text = ["the/D walk/N ends/V", "they/P walk/V home/N", "the/D talk/N", "they/P talk/V", "the/D sending/N"]
    sentences = []
    for line in text:
        words, labels = zip(*(pair.split("/") for pair in line.split()), strict=True)
        sentences.append(Sentence(list(words), list(labels), [[] for _ in words]))
    tagger = HmmTagger(rare=10, suffix=3)
    tagger.start(sentences, seed=0)

    def tags(line: str) -> list[str]:
        return tagger.label([Sentence(line.split(), [], [])])[0]

    assert tags("the walk") == ["D", "N"]
    assert tags("they walk") == ["P", "V"]
    assert tags("the lending") == ["D", "N"]
    assert tags("New walk")[1:] in (["N"], ["V"])  # no word of train has a capital
