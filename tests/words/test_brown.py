"""Brown clusters against the definition of mutual information, every partition, and the published clusters."""

import math
import os
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus import load_corpus
from lmzoo.words import brown
from lmzoo.words.brown import Exchange, average_mutual_information, brown_clusters


def random_text(length: int, words: int, seed: int) -> Tensor:
    """Lines of words of unequal frequency; some words are repeated at once."""
    random = np.random.default_rng(seed)
    tokens = random.choice(words, size=length, p=random.dirichlet(np.ones(words)))
    tokens[random.random(length) < 0.15] = 0
    tokens[-1] = 0
    repeat = np.flatnonzero(random.random(length - 2) < 0.2) + 1
    tokens[repeat] = tokens[repeat - 1]
    return torch.from_numpy(tokens)


def ami(tokens: Tensor, cluster: list[int]) -> float:
    """The definition, summed over the pairs that occur."""
    text = [cluster[token] for token in tokens.tolist()]
    pairs = Counter(zip([text[-1], *text[:-1]], text, strict=True))
    single, N = Counter(text), len(text)
    return sum(n / N * math.log(N * n / (single[c] * single[d])) for (c, d), n in pairs.items())


def partition(cluster: Tensor) -> set[frozenset[int]]:
    return {frozenset((cluster == c).nonzero()[:, 0].tolist()) for c in cluster.unique()}


def test_average_mutual_information_by_hand():
    # circular bigrams of clusters 0 1 0 1: (0, 1) twice, (1, 0) twice, so each neighbour is certain
    tokens = torch.tensor([2, 1, 3, 0])
    assert average_mutual_information(tokens, torch.tensor([1, 1, 0, 0])) == pytest.approx(math.log(2), abs=1e-15)
    assert average_mutual_information(tokens, torch.zeros(4, dtype=torch.int64)) == 0
    assert average_mutual_information(tokens, torch.arange(4)) == pytest.approx(math.log(4), abs=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_average_mutual_information_is_the_definition(seed: int):
    tokens = random_text(200, 12, seed)
    cluster = torch.from_numpy(np.random.default_rng(seed).integers(0, 4, size=12))
    assert average_mutual_information(tokens, cluster) == pytest.approx(ami(tokens, cluster.tolist()), abs=1e-13)


@pytest.mark.parametrize("seed", range(8))
def test_gain_of_every_exchange_is_the_recomputed_difference(seed: int):
    V, C, N = 15, 4, 300
    tokens = random_text(N, V, seed)
    exchange = Exchange(tokens.numpy(), V, C)
    exchange.sweep(temperature=3.0, random=np.random.default_rng(seed))  # somewhere in the middle
    for word in exchange.by_frequency.tolist():
        home, near = exchange.cluster[word], exchange.neighbourhood(word)
        exchange.add(word, near, home, -1)
        gains = exchange.gains(word, near) / N
        exchange.add(word, near, home)
        cluster = exchange.cluster.tolist()
        staying = ami(tokens, cluster)
        for to in range(C):
            cluster[word] = to
            assert gains[to] - gains[home] == pytest.approx(ami(tokens, cluster) - staying, abs=1e-10)


def test_counts_stay_those_of_the_partition():
    V, C = 15, 4
    tokens = random_text(300, V, seed=0)
    exchange = Exchange(tokens.numpy(), V, C)
    random = np.random.default_rng(0)
    assert sum(exchange.sweep(temperature, random) for temperature in (5.0, 1.0, 0.0)) > 0
    text = exchange.cluster[tokens.numpy()]
    forward = np.zeros((C, C), dtype=int)
    np.add.at(forward, (np.roll(text, 1), text), 1)
    assert (exchange.bigrams == np.concatenate([forward.T, forward])).all()
    assert (exchange.counts == np.bincount(text, minlength=C)).all()
    assert (exchange.members == np.bincount(exchange.cluster[exchange.by_frequency], minlength=C)).all()


@pytest.mark.parametrize("seed", range(5))
def test_cold_sweep_raises_mutual_information_until_nothing_moves(seed: int):
    V, C = 40, 6
    tokens = random_text(2000, V, seed)
    exchange = Exchange(tokens.numpy(), V, C)
    random = np.random.default_rng(0)
    values, moved = [ami(tokens, exchange.cluster.tolist())], 1
    while moved:
        moved = exchange.sweep(0, random)
        values.append(ami(tokens, exchange.cluster.tolist()))
        assert values[-1] > values[-2] if moved else values[-1] == values[-2]
    assert len(values) > 3
    for word in exchange.by_frequency.tolist():  # no single exchange is better
        cluster = exchange.cluster.tolist()
        if exchange.members[cluster[word]] > 1:
            for cluster[word] in range(C):
                assert ami(tokens, cluster) <= values[-1] + 1e-6


@pytest.mark.parametrize("clusters", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_best_of_a_few_annealings_is_the_best_of_all_partitions(seed: int, clusters: int):
    V = 7
    tokens = random_text(400, V, seed).unique(return_inverse=True)[1]
    words = int(tokens.max()) + 1
    every = (cluster for cluster in product(range(clusters), repeat=words) if len(set(cluster)) == clusters)
    best = max(ami(tokens, list(cluster)) for cluster in every)
    found = []
    for restart in range(10):
        exchange = Exchange(tokens.numpy(), words, clusters)
        exchange.anneal(np.random.default_rng(restart))
        found.append(average_mutual_information(tokens, torch.from_numpy(exchange.cluster)))
    assert max(found) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_recovers_the_classes_of_a_class_bigram_model(seed: int):
    random = np.random.default_rng(seed)
    classes, each = 6, 20
    transition = random.dirichlet(np.ones(classes + 1), size=classes + 1)
    zipf = 1 / np.arange(1, each + 1)
    true = np.concatenate([[0], np.repeat(np.arange(1, classes + 1), each)])
    state, text = 0, []
    while len(text) < 30_000 or state != 0:
        state = random.choice(classes + 1, p=transition[state])
        text.append(0 if state == 0 else random.choice(np.flatnonzero(true == state), p=zipf / zipf.sum()))
    found = brown_clusters(torch.tensor(text), len(true), classes + 1)
    assert partition(found) == partition(torch.from_numpy(true))


@pytest.mark.parametrize("clusters", [1, 2, 5, 9])
def test_last_cluster_has_eos_and_unseen_words_and_none_is_empty(clusters: int):
    tokens = torch.tensor([3, 5, 7, 0, 3, 2, 7, 7, 0, 8, 9, 10, 1, 0])  # nine words; 4, 6 and 11 are unseen
    found = brown_clusters(tokens, 12, clusters)
    assert found.dtype == torch.int64
    assert (found[[0, 4, 6, 11]] == clusters - 1).all()
    assert (found[tokens.unique()].bincount(minlength=clusters) > 0).all()
    assert found.max() == clusters - 1


def test_the_same_text_has_the_same_clusters():
    tokens = random_text(2000, 40, seed=1)
    assert torch.equal(brown_clusters(tokens, 40, 6), brown_clusters(tokens.clone(), 40, 6))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_clusters_are_where_the_text_is():
    tokens = random_text(500, 20, seed=1)
    found = brown_clusters(tokens.cuda(), 20, 4)
    assert found.is_cuda
    assert torch.equal(found.cpu(), brown_clusters(tokens, 20, 4))
    assert average_mutual_information(tokens.cuda(), found) == average_mutual_information(tokens, found.cpu())


@pytest.mark.parametrize("clusters", [0, 4, 5])
def test_clusters_must_fit_the_words(clusters: int):
    with pytest.raises(UserError, match=rf"^clusters={clusters}: must be 1 to 3, the number of different words"):
        brown_clusters(torch.tensor([1, 2, 0]), 5, clusters)


def reference_clusters(path: Path, index: dict[str, int]) -> Tensor:
    """(V,) clusters from lines of bit string, word and count; a word that is not listed is in the last cluster."""
    labels: dict[str, int] = {}
    placed = {}
    for line in path.read_text().splitlines():
        bits, word, _ = line.split("\t")
        label = labels.setdefault(bits, len(labels))
        if word in index:
            placed[index[word]] = label
    return torch.tensor([placed.get(word, len(labels) - 1) for word in range(len(index))])


@pytest.mark.slow
def test_penn_treebank_clusters_beat_the_published_ones():
    data = Path(os.environ.get("LMZOO_DATA", "data"))
    files = [data / "brown-clusters" / name / "paths" for name in ("lm-128", "flm-128")]
    if not all(file.exists() for file in [data / "ptb" / "ptb.train.txt", *files]):
        pytest.skip("needs LMZOO_DATA with ptb and brown-clusters")
    corpus = load_corpus({"name": "ptb", "context": "sentence", "vocabulary": None, "urls": []})
    ours = average_mutual_information(
        corpus.splits["train"], brown_clusters(corpus.splits["train"], len(corpus.vocabulary), 128)
    )
    published = [
        average_mutual_information(corpus.splits["train"], reference_clusters(file, corpus.vocabulary.index))
        for file in files
    ]
    assert published == pytest.approx([0.9476706683402595, 0.9575592096816635], abs=1e-9)
    assert ours > 0.99


def test_the_search_goes_on_until_no_word_moves(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(brown, "ANNEALING_SWEEPS", 1)
    for seed in range(5):
        random = np.random.default_rng(seed)
        exchange = Exchange(random_text(500, 30, seed).numpy(), 30, 5)
        exchange.anneal(random)
        assert exchange.sweep(0, random) == 0
