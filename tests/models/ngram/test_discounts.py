"""Counts and discounts against dictionaries of tuples, hand counts and the published figures."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ngram_oracle import Oracle, kenlm_statistics

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.models.ngram.counts import adjusted_counts, count_ngrams
from lmzoo.models.ngram.discounts import absolute_discount, kenlm_counts_of_counts, modified_discounts
from lmzoo.models.ngram.smoothing import discounts

# a b c / a b / b b b c / (empty), with a = 1, b = 2, c = 3
TEXT = torch.tensor([1, 2, 3, 0, 1, 2, 0, 2, 2, 2, 3, 0, 0])

lines = st.lists(st.lists(st.integers(1, 4), max_size=6), min_size=1, max_size=8)


def stream(lines: list[list[int]]) -> torch.Tensor:
    return torch.tensor([word for line in lines for word in [*line, 0]])


def spelt(orders, n: int) -> list[tuple[int, ...]]:
    """The n-grams of order n as tuples of words, in the order of their rows."""
    vocabulary_size = len(orders[0].keys)
    last = [key % vocabulary_size for key in orders[n - 1].keys.tolist()]
    if n == 1:
        return [(word,) for word in last]
    shorter = spelt(orders, n - 1)
    return [(*shorter[prefix], word) for prefix, word in zip(orders[n - 1].prefix.tolist(), last, strict=True)]


def test_counts_of_a_text_counted_by_hand():
    orders = count_ngrams(TEXT, 5, 3)
    assert orders[0].counts.tolist() == [4, 2, 5, 2, 0]
    bigrams = dict(zip(spelt(orders, 2), orders[1].counts.tolist(), strict=True))
    assert bigrams == {(0, 0): 1, (0, 1): 2, (0, 2): 1, (1, 2): 2, (2, 0): 1, (2, 2): 2, (2, 3): 2, (3, 0): 2}
    trigrams = dict(zip(spelt(orders, 3), orders[2].counts.tolist(), strict=True))
    assert trigrams == {
        (0, 1, 2): 2, (0, 2, 2): 1, (1, 2, 0): 1, (1, 2, 3): 1, (2, 2, 2): 1, (2, 2, 3): 1, (2, 3, 0): 2
    }  # fmt: skip
    adjusted = adjusted_counts(orders)
    assert adjusted[0].tolist() == [3, 1, 3, 1, 0]  # </s> after <s>, b, c; a after <s>; b after <s>, a, b; c after b
    assert dict(zip(spelt(orders, 2), adjusted[1].tolist(), strict=True)) == {
        (0, 0): 1, (0, 1): 2, (0, 2): 1, (1, 2): 1, (2, 0): 1, (2, 2): 2, (2, 3): 2, (3, 0): 1
    }  # fmt: skip


@settings(deadline=None)
@given(lines, st.integers(1, 5))
def test_counts_equal_the_dictionary_s(lines: list[list[int]], order: int):
    tokens = stream(lines)
    orders = count_ngrams(tokens, 5, order)
    for smoothing, counts in (("mle", [grams.counts for grams in orders]), ("kneser_ney", adjusted_counts(orders))):
        oracle = Oracle(tokens.tolist(), 5, order, smoothing, True, True, 1.0, None, [0]).counts
        counted = {}
        for n, a in enumerate(counts, start=1):
            for words, count in zip(spelt(orders, n), a.tolist(), strict=True):
                *before, last = words
                gram = (*("<s>" if word == 0 else word for word in before), "</s>" if last == 0 else last)
                if count:
                    counted[gram] = count
        assert counted == oracle


@settings(deadline=None)
@given(lines, st.integers(1, 5))
def test_rows_point_at_prefix_and_suffix(lines: list[list[int]], order: int):
    orders = count_ngrams(stream(lines), 5, order)
    for n in range(2, order + 1):
        shorter = spelt(orders, n - 1)
        assert [shorter[i] for i in orders[n - 1].suffix.tolist()] == [words[1:] for words in spelt(orders, n)]
        begin = [words[0] == 0 for words in spelt(orders, n)]
        assert begin == [row < orders[n - 1].initial for row in range(len(begin))]
        assert (orders[n - 1].keys.diff() > 0).all()


@settings(deadline=None)
@given(lines, st.integers(1, 5))
@example([[1], [1], [1]], 3)  # the last bigram begins with <s>
def test_counts_of_counts_follow_kenlm_s_stream(lines: list[list[int]], order: int):
    tokens = stream(lines)
    t = kenlm_counts_of_counts(tokens, 5, adjusted_counts(count_ngrams(tokens, 5, order)))
    expected = kenlm_statistics(tokens.tolist(), order)
    assert [t_n[1:] for t_n in t] == [[seen[k] for k in range(1, 5)] for seen in expected]


def test_counts_of_counts_by_hand():
    """KenLM counts c last. It occurs twice, both times after b: its adjusted count is 1, its raw count is 2."""
    t = kenlm_counts_of_counts(TEXT, 5, adjusted_counts(count_ngrams(TEXT, 5, 2)))
    assert t[0] == [1, 1, 1, 2, 0]  # adjusted: </s> 3, a 1, b 3, and c 2 instead of 1; one word is unseen
    assert t[1] == [0, 3, 5, 0, 0]  # raw: three bigrams once, five twice


def test_absolute_discount_by_hand():
    assert absolute_discount([0, 10, 4, 2, 1]) == pytest.approx([10 / 18] * 3)


def test_modified_discounts_by_hand():
    # Y = 10 / (10 + 8); 1 - 2 Y 4/10, 2 - 3 Y 2/4, 3 - 4 Y 1/2
    assert modified_discounts([0, 10, 4, 2, 1]) == pytest.approx([5 / 9, 7 / 6, 17 / 9])


@pytest.mark.parametrize(
    ("t", "reason"),
    [([0, 0, 4, 2, 1], "adjusted count 1"), ([7, 9, 4, 0, 1], "adjusted count 3"), ([0, 1, 1, 9, 1], "count 2 would")],
)
def test_too_little_text_for_discounts(t: list[int], reason: str):
    with pytest.raises(UserError, match=reason):
        modified_discounts(t)


def test_fallback_only_for_the_orders_that_need_it(caplog: pytest.LogCaptureFixture):
    counts = [torch.tensor([9, 9, 9]), torch.tensor([1, 1, 1, 2])]
    with pytest.raises(UserError, match=r"for 1-grams .*set model\.discount_fallback=true"):
        discounts(TEXT, 5, counts, "kneser_ney", fallback=False)
    assert discounts(TEXT, 5, counts, "kneser_ney", fallback=True) == [[0.5] * 3, [0.6] * 3]
    assert discounts(torch.tensor([1, 0]), 2, [torch.tensor([1, 1])], "modified_kneser_ney", True) == [[0.5, 1.0, 1.5]]
    assert [record.args[0] for record in caplog.records] == [
        "the training text gives no kneser_ney discounts for 1-grams (no n-gram has count 1)",
        "the training text gives no modified_kneser_ney discounts for 1-grams (no n-gram has adjusted count 2)",
    ]


def test_penn_treebank_as_kenlm_counts_it(ptb: Corpus):
    orders = count_ngrams(ptb.splits["train"], len(ptb.vocabulary), 5)
    assert [len(grams.keys) for grams in orders] == [10_000, 264_990, 586_558, 717_733, 737_952]
    counts = adjusted_counts(orders)
    D = discounts(ptb.splits["train"], len(ptb.vocabulary), counts, "modified_kneser_ney", fallback=False)
    expected = [
        [0.25656, 0.82888, 1.26492],
        [0.727802, 1.09876, 1.47130],
        [0.868879, 1.25462, 1.44822],
        [0.942828, 1.38314, 1.43173],
        [0.959671, 1.38790, 1.24171],
    ]
    for ours, kenlm in zip(D, expected, strict=True):
        assert ours == pytest.approx(kenlm, rel=1e-5)
