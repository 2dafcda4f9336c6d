import math
import os
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus import load_corpus
from lmzoo.words import cache as cache_module
from lmzoo.words.brown import Exchange, average_mutual_information, brown_clusters
from lmzoo.words.cache import cached_brown_clusters


def random_text(length: int, words: int, seed: int) -> Tensor:
    """Words of unequal frequency in lines, with a word sometimes said twice."""
    random = np.random.default_rng(seed)
    tokens = random.choice(words, size=length, p=random.dirichlet(np.ones(words)))
    tokens[random.random(length) < 0.15] = 0
    tokens[-1] = 0
    repeat = np.flatnonzero(random.random(length - 2) < 0.2) + 1
    tokens[repeat] = tokens[repeat - 1]
    return torch.from_numpy(tokens)


def ami(tokens: Tensor, classes: list[int]) -> float:
    """The definition, summed over the pairs that occur."""
    text = [classes[token] for token in tokens.tolist()]
    pairs = Counter(zip([text[-1], *text[:-1]], text, strict=True))
    single, N = Counter(text), len(text)
    return sum(n / N * math.log(N * n / (single[c] * single[d])) for (c, d), n in pairs.items())


def partition(classes: Tensor) -> set[frozenset[int]]:
    return {frozenset((classes == c).nonzero()[:, 0].tolist()) for c in classes.unique()}


def test_average_mutual_information_by_hand():
    # circular bigrams of classes 0 1 0 1: (0, 1) twice, (1, 0) twice, so each neighbour is certain
    tokens = torch.tensor([2, 1, 3, 0])
    assert average_mutual_information(tokens, torch.tensor([1, 1, 0, 0])) == pytest.approx(math.log(2), abs=1e-15)
    assert average_mutual_information(tokens, torch.zeros(4, dtype=torch.int64)) == 0
    assert average_mutual_information(tokens, torch.arange(4)) == pytest.approx(math.log(4), abs=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_average_mutual_information_is_the_definition(seed: int):
    tokens = random_text(200, 12, seed)
    classes = torch.from_numpy(np.random.default_rng(seed).integers(0, 4, size=12))
    assert average_mutual_information(tokens, classes) == pytest.approx(ami(tokens, classes.tolist()), abs=1e-13)


@pytest.mark.parametrize("seed", range(8))
def test_gain_of_every_exchange_is_the_recomputed_difference(seed: int):
    V, C, N = 15, 4, 300
    tokens = random_text(N, V, seed)
    exchange = Exchange(tokens.numpy(), V, C)
    exchange.sweep(temperature=3.0, random=np.random.default_rng(seed))  # somewhere in the middle
    for word in exchange.by_frequency.tolist():
        home, context = exchange.word_class[word], exchange.context(word)
        exchange.add(word, context, home, -1)
        gains = exchange.gains(word, context) / N
        exchange.add(word, context, home)
        classes = exchange.word_class.tolist()
        staying = ami(tokens, classes)
        for to in range(C):
            classes[word] = to
            assert gains[to] - gains[home] == pytest.approx(ami(tokens, classes) - staying, abs=1e-10)


def test_counts_stay_those_of_the_partition():
    V, C = 15, 4
    tokens = random_text(300, V, seed=0)
    exchange = Exchange(tokens.numpy(), V, C)
    random = np.random.default_rng(0)
    assert sum(exchange.sweep(temperature, random) for temperature in (5.0, 1.0, 0.0)) > 0
    text = exchange.word_class[tokens.numpy()]
    forward = np.zeros((C, C), dtype=int)
    np.add.at(forward, (np.roll(text, 1), text), 1)
    assert (exchange.bigrams == np.concatenate([forward.T, forward])).all()
    assert (exchange.counts == np.bincount(text, minlength=C)).all()
    assert (exchange.members == np.bincount(exchange.word_class[exchange.by_frequency], minlength=C)).all()


@pytest.mark.parametrize("seed", range(5))
def test_cold_sweep_raises_mutual_information_until_nothing_moves(seed: int):
    V, C = 40, 6
    tokens = random_text(2000, V, seed)
    exchange = Exchange(tokens.numpy(), V, C)
    random = np.random.default_rng(0)
    values, moved = [ami(tokens, exchange.word_class.tolist())], 1
    while moved:
        moved = exchange.sweep(0, random)
        values.append(ami(tokens, exchange.word_class.tolist()))
        assert values[-1] > values[-2] if moved else values[-1] == values[-2]
    assert len(values) > 3
    for word in exchange.by_frequency.tolist():  # no single exchange is better
        classes = exchange.word_class.tolist()
        if exchange.members[classes[word]] > 1:
            for classes[word] in range(C):
                assert ami(tokens, classes) <= values[-1] + 1e-6


@pytest.mark.parametrize("clusters", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_best_of_a_few_annealings_is_the_best_of_all_partitions(seed: int, clusters: int):
    V = 7
    tokens = random_text(400, V, seed).unique(return_inverse=True)[1]
    words = int(tokens.max()) + 1
    every = (classes for classes in product(range(clusters), repeat=words) if len(set(classes)) == clusters)
    best = max(ami(tokens, list(classes)) for classes in every)
    found = []
    for restart in range(10):
        exchange = Exchange(tokens.numpy(), words, clusters)
        exchange.anneal(np.random.default_rng(restart))
        found.append(average_mutual_information(tokens, torch.from_numpy(exchange.word_class)))
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
    with pytest.raises(UserError, match=rf"^{clusters} clusters: must be 1 to 3, the number of different words"):
        brown_clusters(torch.tensor([1, 2, 0]), 5, clusters)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMZOO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def forbid_computing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "brown_clusters", lambda *_: pytest.fail("computed again"))


def test_cache_is_read_and_keyed_by_all_that_matters(cache: Path, monkeypatch: pytest.MonkeyPatch):
    tokens, other = random_text(300, 12, seed=0), random_text(300, 12, seed=1)
    cases = [(tokens, 12, 3), (tokens, 12, 4), (tokens, 13, 3), (other, 12, 3)]
    found = [cached_brown_clusters(*case) for case in cases]
    assert [f.tolist() for f in found] == [brown_clusters(*case).tolist() for case in cases]
    assert len(list(cache.iterdir())) == len(cases)
    forbid_computing(monkeypatch)
    assert [cached_brown_clusters(*case).tolist() for case in cases] == [f.tolist() for f in found]
    monkeypatch.setattr(cache_module, "VERSION", cache_module.VERSION + 1)
    with pytest.raises(pytest.fail.Exception):
        cached_brown_clusters(*cases[0])


def test_corrupt_cache_is_computed_again(cache: Path, monkeypatch: pytest.MonkeyPatch):
    tokens = random_text(300, 12, seed=0)
    found = cached_brown_clusters(tokens, 12, 3)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    flipped = whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]
    for corrupt in (b"", b"\n", whole[:-8], whole[:30], flipped):
        file.write_bytes(corrupt)
        assert torch.equal(cached_brown_clusters(tokens, 12, 3), found)
        assert file.read_bytes() == whole
    forbid_computing(monkeypatch)
    assert torch.equal(cached_brown_clusters(tokens, 12, 3), found)


def test_unusable_cache_folder_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tokens = random_text(300, 12, seed=0)
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("LMZOO_CACHE", str(tmp_path / "file" / "cache"))
    assert torch.equal(cached_brown_clusters(tokens, 12, 3), brown_clusters(tokens, 12, 3))

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("LMZOO_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert torch.equal(cached_brown_clusters(tokens, 12, 3), brown_clusters(tokens, 12, 3))


def test_cache_folder_by_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("LMZOO_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_module.cache_folder() == Path("/home/somebody/.cache/lmzoo")
    monkeypatch.setenv("XDG_CACHE_HOME", "/fast")
    assert cache_module.cache_folder() == Path("/fast/lmzoo")
    monkeypatch.setenv("LMZOO_CACHE", "/here")
    assert cache_module.cache_folder() == Path("/here")


def test_two_processes_may_cache_at_once(cache: Path):
    program = (
        "import torch; from lmzoo.words.cache import cached_brown_clusters as cached;"
        "tokens = torch.arange(600).square() % 31 % 12; tokens[-1] = 0; print(cached(tokens, 12, 3).tolist())"
    )
    runs = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [run.communicate()[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert outputs[0] == outputs[1] != ""
    assert len(list(cache.iterdir())) == 1


def reference_clusters(path: Path, index: dict[str, int]) -> Tensor:
    """(V,) clusters from lines of bit string, word and count; words that are not there go to the last."""
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
    corpus = load_corpus({"name": "ptb", "context": "sentence", "urls": []})
    ours = average_mutual_information(corpus.train, brown_clusters(corpus.train, len(corpus.vocabulary), 128))
    published = [
        average_mutual_information(corpus.train, reference_clusters(file, corpus.vocabulary.index)) for file in files
    ]
    assert published == pytest.approx([0.9476706683402595, 0.9575592096816635], abs=1e-9)
    assert ours > 0.99
