"""word2vec: gradients against autograd of the plain formula, batches against loops; steps of GloVe as well."""

import itertools
import math
from collections import Counter

import pytest
import torch
from torch.nn.functional import logsigmoid
from vectors_corpus import corpus_of, two_topics

from lmzoo.core.configs import defaults
from lmzoo.words.vectors import word2vec
from lmzoo.words.vectors.gradients import Band, cbow, skipgram
from lmzoo.words.vectors.method import Method, methods


def leaves(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=random, dtype=torch.float64).requires_grad_() for shape in shapes]


def check(loss: torch.Tensor, found: tuple, *variables: torch.Tensor) -> None:
    assert found[0] == pytest.approx(float(loss.detach()))
    for gradient, expected in zip(found[1:], torch.autograd.grad(loss, variables), strict=True):
        torch.testing.assert_close(gradient, expected)


def test_the_gradient_of_skipgram():
    w, c, n = leaves((2, 3, 4), (2, 7, 4), (2, 6, 4))
    near = (torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(1)) < 0.5).double()
    loss = 0
    for b, i, k in near.nonzero().tolist():
        loss = loss - logsigmoid(w[b, i] @ c[b, i + k]) - 7 / 6 * sum(logsigmoid(-w[b, i] @ v) for v in n[b])
    check(loss, skipgram(w.detach(), c.detach(), n.detach(), near, 7), w, c, n)


def test_sums_near_words_are_those_of_loops():
    weights, w, c = leaves((2, 3, 5), (2, 3, 4), (2, 7, 4))
    band = Band.of(2, 3, 2, torch.device("cpu"))
    to_words, to_places = torch.zeros_like(w), torch.zeros_like(c)
    for b, i, k in itertools.product(range(2), range(3), range(5)):
        to_words[b, i] += weights[b, i, k] * c[b, i + k]
        to_places[b, i + k] += weights[b, i, k] * w[b, i]
    torch.testing.assert_close(band.to_words(weights.detach(), c.detach()), to_words)
    torch.testing.assert_close(band.to_places(weights.detach(), w.detach()), to_places)


def test_the_gradient_of_cbow():
    h, c = leaves((2, 3, 4), (6 + 12, 4))
    words, noise = c[:6].view(2, 3, 4), c[6:].view(2, 6, 4)
    known = torch.tensor([[1.0, 0, 1], [1, 1, 0]]).double()
    loss = 0
    for b, i in known.nonzero().tolist():
        loss = loss - logsigmoid(h[b, i] @ words[b, i]) - 5 / 6 * sum(logsigmoid(-h[b, i] @ v) for v in noise[b])
    check(loss, cbow(h.detach(), c.detach(), known, 5), h, c)


def small(name: str, **options) -> Method:
    method = methods.build(defaults("method", name) | {"dim": 8, "min_count": 1} | options)
    return method


@pytest.mark.parametrize("name", ["skipgram", "cbow"])
def test_before_anything_is_learnt_a_word_and_its_noise_are_coin_tosses(name: str):
    method = small(name, sample=0, negative=5)
    method.start(corpus_of(["a b c d e", "f", "g h a"] * 9, "sentence"), 0)
    assert method.step(0)["train/loss"] == pytest.approx(6 * math.log(2), rel=1e-3)


@pytest.mark.parametrize("context", ["sentence", "stream"])
def test_pairs_are_words_on_one_line_within_the_window(context, monkeypatch):
    monkeypatch.setattr(word2vec, "T", 4)
    lines = ["a b c d e", "f g", "h i j k"]
    method = small("skipgram", window=2, sample=0)
    method.start(corpus_of(lines, context), 0)
    seen: Counter = Counter()
    for epoch in range(40):
        tokens, ends = method._blocks(epoch)
        near = method._near(ends, torch.Generator().manual_seed(epoch))
        for b, i, k in near.nonzero().tolist():
            seen[method.words[tokens[b, i + 2]], method.words[tokens[b, i + k]]] += 1
    whole = [line.split() for line in lines] if context == "sentence" else [" ".join(lines).split()]
    near = {(w, v): abs(i - j) for line in whole for i, w in enumerate(line) for j, v in enumerate(line) if i != j}
    assert set(seen) == {pair for pair, k in near.items() if k <= 2}
    assert all(count == 40 for pair, count in seen.items() if near[pair] == 1)
    assert all(8 <= count <= 32 for pair, count in seen.items() if near[pair] == 2)


def test_subsampling_keeps_words_as_often_as_word2vec():
    method = small("skipgram", sample=0.05)
    method.start(corpus_of(["the the the the the the the the a b"] * 500), 0)
    share = 0.05 / 0.8
    assert float(method.keep_probability[0]) == pytest.approx(share**0.5 + share)
    kept = sum(int((method._blocks(epoch)[0][:, 5:-5] == 0).sum()) for epoch in range(3))
    assert kept == pytest.approx(3 * 4000 * (share**0.5 + share), rel=0.1)


@pytest.mark.parametrize("sample", [0, 0.005])
def test_each_epoch_draws_its_words_and_their_order_anew(sample: float, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(word2vec, "T", 4)
    method = small("skipgram", window=2, sample=sample)
    method.start(corpus_of(["a b c d e f g h i j k l"] * 20), 0)
    first, second, again = (method._blocks(epoch)[0].tolist() for epoch in (0, 1, 0))
    assert again == first != second
    assert (sorted(first) == sorted(second)) == (not sample)


def test_noise_is_drawn_by_frequency_to_a_power():
    method = small("skipgram", exponent=0.75)
    method.start(corpus_of(["a " * 16 + "b"] * 10), 0)
    assert method.noise.tolist() == pytest.approx([8 / 9, 1])


def test_a_row_takes_the_steps_of_few_occurrences():
    method = small("skipgram")
    method.start(corpus_of(["a b c"]), 0)
    table = torch.zeros(3, 8)
    method._add(table, torch.tensor([0] * 16 + [1] * 3), torch.ones(19, 8), 0.5)
    assert table[:, 0].tolist() == [-0.5 * word2vec.CAP, -1.5, 0]


METHODS = ["skipgram", "cbow"]


@pytest.mark.parametrize("name", METHODS)
def test_two_topics_are_distinguished_and_the_loss_falls(name):
    method = small(name, epochs=30, sample=0)
    method.start(two_topics(), 0)
    losses = [method.step(number)["train/loss"] for number in range(method.steps)]
    assert losses[-1] < 0.9 * losses[0]
    unit = torch.nn.functional.normalize(method.vectors())
    of_first = torch.tensor([word.startswith("a") for word in method.words])
    cosines, same = unit @ unit.T, of_first[:, None] == of_first
    assert cosines[same].mean() > cosines[~same].mean() + 0.5


@pytest.mark.parametrize("name", [*METHODS, "glove"])
def test_steps_go_on_from_their_state_alone(name, monkeypatch):
    monkeypatch.setattr(word2vec, "STEP_TOKENS", 500)
    monkeypatch.setattr("lmzoo.words.vectors.glove.STEP_ENTRIES", 25)
    monkeypatch.setattr("lmzoo.words.vectors.glove.GROUP", 4)
    whole, first, second = (small(name, epochs=2) for _ in range(3))
    for method in (whole, first, second):
        method.start(two_topics(), 3)
    assert whole.steps >= 6
    for number in range(whole.steps):
        whole.step(number)
        if number < 3:
            first.step(number)
    for key, tensor in second.state().items():
        tensor.copy_(first.state()[key])
    for number in range(3, whole.steps):
        second.step(number)
    assert torch.equal(whole.vectors(), second.vectors())
    assert (len(whole.text.tokens), whole.steps) == (2400, 2 * whole.epoch)
