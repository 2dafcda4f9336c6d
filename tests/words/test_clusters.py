"""Ways to deal words into clusters."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.core.errors import UserError
from lmzoo.words.brown import brown_clusters
from lmzoo.words.clusters import frequency_clusters, word_clusters


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
        draws.append(word_clusters("uniform", corpus.train, V, 7))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert set(draws[0].bincount(minlength=7).tolist()) <= {V // 7, V // 7 + 1}


def test_more_brown_clusters_than_words_are_an_error_that_names_the_option():
    with pytest.raises(UserError, match=r"^model\.clusters=4: train has only 3 different words; choose fewer$"):
        word_clusters("brown", torch.tensor([0, 1, 4, 0]), 5, 4)


@pytest.mark.parametrize("clustering", ["brown", "frequency"])
def test_clusters_of_a_text(corpus, clustering):
    V = len(corpus.vocabulary)
    counts = corpus.train.bincount(minlength=V)
    expected = brown_clusters(corpus.train, V, 5) if clustering == "brown" else frequency_clusters(counts, 5)
    assert torch.equal(word_clusters(clustering, corpus.train, V, 5), expected)
