"""Pruned, mixed and restricted tables against sums over all words and contexts, from dictionaries of tuples."""

import math
from collections.abc import Sequence
from itertools import product

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from ngram_oracle import BOS, EOS
from test_ngram import DEFAULTS, SMOOTHINGS, WORDS, contexts, remembered, stream, texts

from lmzoo.models.ngram.editing import mixed, normalised, pruned, renumbered
from lmzoo.models.ngram.smoothing import estimate
from lmzoo.models.ngram.table import NGramTable

ALL = [EOS, *range(1, WORDS + 1)]
SMOOTH = sorted({*SMOOTHINGS} - {"mle"})


def listed(table: NGramTable) -> dict[tuple, float]:
    """p of each n-gram of a table; ``<s>`` and ``</s>`` have their own signs."""
    grams: list[tuple] = [(word,) for word in range(table.vocabulary_size)]
    for key in table.keys.tolist():
        grams.append((*grams[key // table.vocabulary_size], key % table.vocabulary_size))
    shown = [(*(BOS if word == 0 else word for word in gram[:-1]), gram[-1] or EOS) for gram in grams]
    return dict(zip(shown, table.logprob.double().exp().tolist(), strict=True))


class Model:
    """A backoff model of a dictionary of probabilities; what is left in a context goes to the other words."""

    def __init__(self, grams: dict[tuple, float], words: Sequence = ALL):
        self.grams, self.words = grams, words
        self.followers: dict[tuple, set] = {}
        for gram in grams:
            self.followers.setdefault(gram[:-1], set()).add(gram[-1])

    def probability(self, word, history: tuple) -> float:
        if (*history, word) in self.grams:
            return self.grams[*history, word]
        if not (followers := self.followers.get(history)):
            return self.probability(word, history[1:])
        left = 1 - sum(self.grams[*history, seen] for seen in followers)
        free = sum(self.probability(other, history[1:]) for other in self.words if other not in followers)
        return self.probability(word, history[1:]) * left / free

    def joint(self, gram: tuple) -> float:
        return math.prod(self.probability(EOS if x == BOS else x, gram[:i]) for i, x in enumerate(gram))

    def growth(self, gram: tuple) -> float:
        """P(h) Σ_w p(w | h) log (p(w | h) / p'(w | h)), where p' is the model without the n-gram."""
        h, less = gram[:-1], Model({other: p for other, p in self.grams.items() if other != gram}, self.words)
        both = ((self.probability(word, h), less.probability(word, h)) for word in self.words)
        return self.joint(h) * sum(p * math.log(p / q) for p, q in both)


def predictions(model: Model, order: int) -> list[list[float]]:
    rows = (remembered(tuple(row)) for row in contexts(order - 1).tolist())
    return [[model.probability(word, history) for word in ALL] for history in rows]


def predicted(table: NGramTable, order: int) -> torch.Tensor:
    """(contexts, words); a table may have become shorter."""
    return table.predict(contexts(order - 1)[:, order - table.order :])[:, : WORDS + 1].double().exp()


def estimated(lines: list[list[int]], order: int, smoothing: str, **options) -> NGramTable:
    return estimate(stream(lines), vocabulary_size=WORDS + 1, order=order, **DEFAULTS | options, smoothing=smoothing)


DEFAULTS = {name: value for name, value in DEFAULTS.items() if name != "smoothing"}
TEXT = [[1, 2, 3, 1, 2, 4], [1, 2], [2, 3, 3, 2], [], [4, 1, 2, 3], [1, 1]]


@settings(deadline=None, max_examples=60)
@given(texts, st.integers(1, 4), st.sampled_from(SMOOTH), st.booleans(), st.sampled_from([1e-4, 1e-3, 1e-2, 0.1]))
@example(TEXT, 3, "absolute", False, 1e-2)
@example(TEXT, 4, "modified_kneser_ney", True, 1e-3)
def test_pruning_is_by_the_growth_of_entropy(lines, order: int, smoothing: str, interpolated: bool, threshold: float):
    table = estimated(lines, order, smoothing, interpolated=interpolated)
    grams = listed(table)
    model = Model(grams)
    # Of a context that leaves almost nothing to other words, float32 does not tell how much that is.
    for history, followers in model.followers.items():
        assume(not history or sum(grams[*history, word] for word in followers) < 0.99)
    share = {gram: math.expm1(max(model.growth(gram), 0)) for gram in grams if len(gram) > 1}
    assume(all(abs(value / threshold - 1) > 1e-3 for value in share.values()))
    expected = dict(grams)
    for gram in sorted(share, key=len, reverse=True):
        if share[gram] < threshold and not any(other[:-1] == gram for other in expected):
            del expected[gram]
    found = pruned(table, threshold)
    assert {*listed(found)} == {*expected}
    assert predicted(found, order).tolist() == [
        pytest.approx(row, rel=1e-3) for row in predictions(Model(expected), order)
    ]


@settings(deadline=None)
@given(texts, st.integers(1, 4), st.sampled_from(SMOOTHINGS), st.booleans())
@example([[1, 1]], 2, "modified_kneser_ney", False)  # a backoff above 1
def test_nothing_is_pruned_at_0_and_the_rest_stays(lines, order: int, smoothing: str, interpolated: bool):
    table = estimated(lines, order, smoothing, interpolated=interpolated)
    for other in (pruned(table, 0.0), normalised(table)):
        assert other.keys.tolist() == table.keys.tolist()
        torch.testing.assert_close(predicted(other, order), predicted(table, order), atol=1e-5, rtol=0)
    if order > 1 and "kneser_ney" not in smoothing:
        assert pruned(table, 1e9).keys.numel() <= table.keys.numel()
    shortest = predicted(pruned(table, 1e9), order)
    torch.testing.assert_close(shortest.sum(1), torch.ones(len(shortest)).double(), atol=1e-5, rtol=0)


@settings(deadline=None, max_examples=50)
@given(texts, texts, st.integers(1, 4), st.integers(1, 3), st.sampled_from([0.1, 0.5, 1.0]), st.booleans())
@example(TEXT, [[1, 3], [3]], 2, 3, 0.5, True)
def test_a_mixture_has_all_n_grams(lines, others, order: int, other: int, weight: float, pruning: bool):
    tables = estimated(lines, order, "witten_bell"), estimated(others, other, "absolute")
    if pruning:  # then suffixes of n-grams are missing
        tables = tuple(pruned(table, 0.02) for table in tables)
    table = mixed(tables, torch.tensor([weight, 1 - weight]))
    a, b = map(Model, map(listed, tables))
    expected = {gram: weight * a.probability(gram[-1], gram[:-1]) + (1 - weight) * b.probability(gram[-1], gram[:-1])
                for gram in a.grams | b.grams}  # fmt: skip
    assert listed(table) == pytest.approx(expected, rel=1e-5)
    found = predicted(table, max(order, other))
    torch.testing.assert_close(found.sum(1), torch.ones(len(found)).double(), atol=1e-5, rtol=0)
    rest = predictions(Model(expected), max(order, other))
    assert found.tolist() == [pytest.approx(row, rel=1e-3, abs=1e-6) for row in rest]


def test_a_table_mixed_with_itself_is_the_same():
    table = estimated(TEXT, 3, "modified_kneser_ney")
    again = mixed([table, table], torch.tensor([0.3, 0.7]))
    assert again.keys.tolist() == table.keys.tolist()
    torch.testing.assert_close(predicted(again, 3), predicted(table, 3), atol=1e-5, rtol=0)


def test_words_are_renumbered():
    table = estimated(TEXT, 3, "modified_kneser_ney")
    numbers = torch.tensor([0, 3, 1, 4, 2])
    other = renumbered(table, numbers, WORDS + 2)
    context = contexts(2)
    torch.testing.assert_close(other.predict(numbers[context])[:, numbers], table.predict(context))
    assert other.predict(context)[:, -1].isneginf().all()
    back = renumbered(other, torch.cat([numbers.argsort(), torch.tensor([-1])]), WORDS + 1)
    for name in ("keys", "logprob", "backoff"):
        assert getattr(back, name).tolist() == getattr(table, name).tolist()


def test_the_n_grams_of_some_words_keep_their_probabilities():
    table = estimated(TEXT, 3, "modified_kneser_ney")
    some = renumbered(table, torch.tensor([0, 1, 2, -1, -1]), 3)
    assert {*listed(some)} == {gram for gram in listed(table) if not {3, 4}.intersection(gram)}
    context = torch.tensor([*product(range(3), repeat=2)])
    torch.testing.assert_close(some.predict(context), table.predict(context)[:, :3])
