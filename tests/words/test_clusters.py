"""Ways to put the words of a text into clusters."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.core.errors import UserError
from lmzoo.words.brown import frequency_clusters, word_clusters


@given(st.lists(st.integers(0, 50), min_size=1, max_size=40), st.data())
def test_clusters_by_frequency_follow_the_rank_and_none_is_empty(counts, data):
    clusters = data.draw(st.integers(1, len(counts)))
    found = frequency_clusters(torch.tensor(counts), clusters)
    assert sorted(set(found.tolist())) == list(range(clusters))
    ranked = sorted(range(len(counts)), key=lambda word: (-counts[word], word))
    assert found[ranked].tolist() == sorted(found.tolist())


def test_clusters_by_frequency_share_the_text_equally():
    counts = torch.tensor([4, 6, 2, 2, 2, 1, 1])
    assert frequency_clusters(counts, 3).tolist() == [1, 0, 1, 2, 2, 2, 2]
    even = frequency_clusters(torch.ones(100, dtype=torch.int64), 8)
    assert set(even.bincount().tolist()) == {12, 13}


def test_uniform_clusters_are_equal_and_drawn_from_the_seed(corpus):
    V = len(corpus.vocabulary)
    draws = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        draws.append(word_clusters("uniform", corpus.splits["train"], V, 7))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert set(draws[0].bincount(minlength=7).tolist()) <= {V // 7, V // 7 + 1}


def test_more_brown_clusters_than_words_are_an_error_that_names_the_option():
    with pytest.raises(UserError, match=r"^model\.clusters=4: must be 1 to 3, the number of different words"):
        word_clusters("brown", torch.tensor([0, 1, 4, 0]), 5, 4)


def test_brown_clusters_of_a_text_are_words_of_the_same_neighbours():
    """Words 1 and 2 begin a line, words 3 and 4 end it."""
    lines = [(first, last) for first in (1, 2) for last in (3, 4)] * 3
    tokens = torch.tensor([word for line in lines for word in (*line, 0)])
    found = word_clusters("brown", tokens, 5, 3).tolist()
    assert found in ([2, 0, 0, 1, 1], [2, 1, 1, 0, 0])


def test_frequency_clusters_are_of_the_counts_of_a_text():
    counts = torch.tensor([4, 6, 2, 2, 2, 1, 1, 0])  # the last word does not occur
    tokens = torch.arange(8).repeat_interleave(counts)
    assert word_clusters("frequency", tokens, 8, 3).tolist() == [1, 0, 1, 2, 2, 2, 2, 2]
