"""Log-linear models against a dense softmax over dictionaries of features, and their optimum against scipy's."""

import math
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from command_line import stop_at
from hydra import compose, initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from scipy.optimize import minimize
from torch import Tensor

import lmzoo
from lmzoo.core.configs import CONFIGS
from lmzoo.core.errors import Interrupted, UserError
from lmzoo.core.registry import models
from lmzoo.corpus import Corpus, load_corpus
from lmzoo.models.maxent.exponential import Exponential
from lmzoo.models.maxent.features import Features, Template, attributes, coarse_to_fine, collect, contexts
from lmzoo.models.maxent.lattice import token_logprobs
from lmzoo.models.maxent.loglinear import LogLinear
from lmzoo.models.maxent.owlqn import minimise
from lmzoo.protocol.perplexity import score
from lmzoo.training.session import train

V = 5  # <eos> and four words, the last rarely seen
WORD_CLASS = torch.tensor([2, 0, 1, 0, 1])
ORDER = 4
OPTIONS = OmegaConf.to_container(OmegaConf.load(CONFIGS / "model" / "loglinear.yaml")) | {
    "order": 3,
    "l2": [0.1, 5.0],
    "l1": [0.0],
    "tolerance": 1e-7,
}
del OPTIONS["name"]

NGRAMS = ["w1", "w1 w2", "w1 w2 w3"]
"""Each list of templates begins with `base`: nothing, or the outcome's own class, which lists that class's words."""
TEMPLATES = [
    ([], []),
    ([], ["w1"]),
    ([], NGRAMS),
    ([], ["w2"]),
    ([], ["w1 w2", "w3", "w1"]),
    ([], ["c1", "c1 c2", "c1 c2 c3", *NGRAMS]),
    ([], ["w1 w3", "c1 w2", "c3"]),
    (["c0"], NGRAMS),
    (["c0"], ["w2", "w1", "c1 c2", "c3 w1"]),
]

lines = st.lists(st.lists(st.integers(1, V - 1), max_size=6), min_size=1, max_size=6)


def stream(lines: list[list[int]]) -> Tensor:
    return torch.tensor([word for line in lines for word in [*line, 0]])


class Dense:
    """The same model by dictionaries and dense scores, with no recursion; outcomes are words, or else their classes."""

    def __init__(self, tokens: Tensor, base: list[str], templates: list[str], of_class: bool = False):
        self.templates = [tuple(base), *(tuple(base + text.split()) for text in templates)]
        self.of_class = of_class
        self.outcomes = int(WORD_CLASS.max()) + 1 if of_class else V
        possible = [({"c0": int(WORD_CLASS[y])}, y) for y in range(self.outcomes)]
        found = {f for seen, y in [*self.positions(tokens), *possible] for f in self.holding(seen, y)}
        self.index = {feature: i for i, feature in enumerate(sorted(found))}

    def positions(self, tokens: Tensor) -> list[tuple[dict[str, int], int]]:
        """What is seen before each outcome, and the outcome."""
        classes, history, positions = WORD_CLASS.tolist(), [0], []
        for word in tokens.tolist():
            seen = {f"w{m}": w for m, w in enumerate(reversed(history), 1)}
            seen |= {f"c{m}": classes[w] for m, w in enumerate(reversed(history), 1)} | {"c0": classes[word]}
            positions.append((seen, classes[word] if self.of_class else word))
            history = [0] if word == 0 else [*history, word]
        return positions

    def holding(self, seen: dict[str, int], y: int) -> list[tuple[tuple[str, ...], tuple[int, ...], int]]:
        """Features, the base's first."""
        return [(t, tuple(seen[n] for n in t), y) for t in self.templates if all(n in seen for n in t)]

    def scorer(self, tokens: Tensor) -> Callable[[Tensor], Tensor]:
        """Weights -> (tokens, outcomes) log-probabilities."""
        matrix = torch.zeros(len(tokens), self.outcomes, len(self.index), dtype=torch.float64)
        impossible = torch.zeros(len(tokens), self.outcomes, dtype=torch.bool)
        for t, (seen, _) in enumerate(self.positions(tokens)):
            for y in range(self.outcomes):
                holding = self.holding(seen, y)
                impossible[t, y] = holding[0] not in self.index
                matrix[t, y, [self.index[f] for f in holding if f in self.index]] = 1
        return lambda weights: (matrix @ weights).masked_fill(impossible, -math.inf).log_softmax(1)

    def said(self, tokens: Tensor) -> Tensor:
        return torch.tensor([y for _, y in self.positions(tokens)])

    def numbers(self, features: Features) -> Tensor:
        """Which of these features each of lmzoo's is; none is missing, none is more."""
        numbers = torch.full((len(features.pairs),), -1)
        for (names, values, y), number in self.index.items():
            x = torch.full((1, features.columns), features.size - 1)
            for name, value in zip(names, values, strict=True):
                x[0, columns([name])[0]] = value
            key = features.rows(x, columns(names)) * features.outcomes + y
            numbers[(features.pairs == key).nonzero().item()] = number
        assert sorted(numbers.tolist()) == list(range(len(self.index)))
        return numbers


def columns(names: Sequence[str]) -> Template:
    return tuple(sorted(2 * int(name[1:]) + (name[0] == "w") for name in names))


def text_of(tokens: Tensor, of_class: bool = False) -> tuple[Tensor, Tensor]:
    x = attributes(contexts(tokens, ORDER), V, WORD_CLASS, WORD_CLASS[tokens])
    return x, WORD_CLASS[tokens] if of_class else tokens


def possible(of_class: bool = False) -> tuple[Tensor, Tensor]:
    y = torch.arange(int(WORD_CLASS.max()) + 1 if of_class else V)
    x = torch.full((len(y), 2 * ORDER), V)
    if not of_class:
        x[:, 0] = WORD_CLASS
    return x, y


def features_of(tokens: Tensor, base: list[str], templates: list[str], of_class: bool = False) -> Features:
    ours = coarse_to_fine(columns(base + text.split()) for text in ["", *templates])
    x, y = (torch.cat(parts) for parts in zip(text_of(tokens, of_class), possible(of_class), strict=True))
    return collect(x, y, ours, V + 1, len(possible(of_class)[1]))[0]


def exponential(base: list[str], templates: list[str], l2: float = 0.0, l1: float = 0.0) -> Exponential:
    """With float64 weights."""
    ours = [columns(base + text.split()) for text in ["", *templates]]
    return Exponential(possible(), size=V + 1, templates=ours, l2=[l2], l1=[l1], trainable=False).double()


def draw(size: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(size, dtype=torch.float64, generator=torch.Generator().manual_seed(size))


@settings(deadline=None, max_examples=60)
@given(lines, st.sampled_from(TEMPLATES), st.booleans(), st.sampled_from([0.1, 1.0, 2.0]))
def test_likelihood_and_gradient_are_the_dense_softmax_s(
    lines: list[list[int]], templates: tuple[list[str], list[str]], of_class: bool, scale: float
):
    of_class = of_class and not templates[0]
    tokens = stream(lines)
    dense, features = Dense(tokens, *templates, of_class), features_of(tokens, *templates, of_class)
    numbers = dense.numbers(features)
    weights = draw(len(numbers), scale).requires_grad_()
    expected = dense.scorer(tokens)(weights).gather(1, dense.said(tokens)[:, None])[:, 0]
    upstream = draw(len(tokens) + 1)[1:]  # each token weighs something else
    (expected @ upstream).backward()
    ours = weights.detach()[numbers].requires_grad_()
    logprobs = token_logprobs(ours, features.lattice(*text_of(tokens, of_class)))
    (logprobs @ upstream).backward()
    torch.testing.assert_close(logprobs, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(ours.grad, weights.grad[numbers], rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=60)
@given(lines, lines, st.sampled_from(TEMPLATES))
def test_distributions_over_contexts_never_seen_are_the_dense_softmax_s(
    lines: list[list[int]], others: list[list[int]], templates: tuple[list[str], list[str]]
):
    dense, tokens = Dense(stream(lines), *templates), stream(others)
    model = exponential(*templates)
    model.collect(text_of(stream(lines)), possible())
    numbers = dense.numbers(model.features)
    weights = draw(len(numbers))
    model.weights.data = weights[numbers]
    x, y = text_of(tokens)
    logprobs = model.predict(x)
    expected = dense.scorer(tokens)(weights)
    torch.testing.assert_close(logprobs, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(logprobs.exp().sum(1), torch.ones(len(x), dtype=torch.float64), rtol=1e-9, atol=0)
    torch.testing.assert_close(model(x, y), expected.gather(1, y[:, None])[:, 0], rtol=1e-9, atol=1e-9)


def test_gradient_is_the_finite_difference(corpus: Corpus):
    tokens, types = corpus.train, len(corpus.vocabulary)
    x = attributes(contexts(tokens, 4), types)
    templates = coarse_to_fine([(), *(columns(text.split()) for text in [*NGRAMS, "w2"])])
    features, counts, _ = collect(x, tokens, templates, types + 1, types)
    lattice = features.lattice(x, tokens)
    weights = draw(len(counts), 0.5).requires_grad_()
    value = token_logprobs(weights, lattice).sum()
    value.backward()
    direction = draw(len(counts) + 1)[:-1]
    direction /= direction.norm()
    near, far = (
        [float(token_logprobs(weights.detach() + sign * step * direction, lattice).sum()) for sign in (1, -1)]
        for step in (1e-3, 2e-3)
    )
    slope = (8 * (near[0] - near[1]) - (far[0] - far[1])) / 12e-3  # error of order step^4
    assert slope == pytest.approx(float(weights.grad @ direction), abs=1e-9 * abs(float(value.detach())))


@pytest.mark.parametrize(
    ("base", "templates", "l2", "l1"),
    [
        ([], NGRAMS[:2], 0.3, 0.0),
        ([], NGRAMS[:2], 0.05, 0.4),
        ([], NGRAMS[:2], 0.0, 0.7),
        (["c0"], ["w1", "c1 w2"], 0.3, 0.4),
    ],
)
def test_the_optimum_is_scipy_s(corpus: Corpus, base: list[str], templates: list[str], l2: float, l1: float):
    tokens = torch.cat([corpus.train[:200] % V, torch.tensor([0])])
    dense = Dense(tokens, base, templates)
    scorer, said, K = dense.scorer(tokens), dense.said(tokens)[:, None], len(dense.index)

    def smooth(weights: Tensor) -> Tensor:
        return l2 / 2 * (weights**2).sum() - scorer(weights).gather(1, said).sum()

    def of_halves(halves: np.ndarray) -> tuple[float, np.ndarray]:
        """Of λ = positive half - negative half, both at least 0, which makes |λ| smooth."""
        both = torch.tensor(halves, requires_grad=True)
        value = smooth(both[:K] - both[K:]) + l1 * both.sum()
        value.backward()
        return float(value.detach()), both.grad.numpy()

    limits = {"ftol": 1e-15, "gtol": 1e-8, "maxiter": 20_000, "maxfun": 20_000}
    expected = minimize(
        of_halves, np.zeros(2 * K), jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * K), options=limits
    )
    model = exponential(base, templates, l2=l2, l1=l1)
    model.fit(text_of(tokens), possible(), tolerance=1e-13, max_iterations=5000)
    weights = torch.zeros(K, dtype=torch.float64)
    weights[dense.numbers(model.features)] = model.weights
    weights.requires_grad_()
    value = smooth(weights)
    value.backward()
    assert float(value.detach()) + l1 * float(weights.detach().abs().sum()) == pytest.approx(expected.fun, rel=1e-6)
    zero = weights == 0
    assert (weights.grad[zero].abs() <= l1 + 1e-3).all()
    torch.testing.assert_close(weights.grad[~zero], -l1 * weights.detach()[~zero].sign(), atol=2e-3, rtol=0)
    assert zero.any() or l1 == 0


def test_minimise_finds_a_known_minimum():
    """Separable: the minimum of a/2 x² - b x + l1 |x| is b shrunk by l1, over a."""
    a, b = draw(50).exp(), draw(51)[:50]
    l1 = torch.linspace(0, 1, 50, dtype=torch.float64)
    found = minimise(
        lambda x: (float(a @ x**2) / 2 - float(b @ x), a * x - b),
        torch.zeros_like(a),
        l1=l1,
        curvature=torch.ones_like(a),
        tolerance=1e-15,
        max_iterations=500,
    )
    expected = b.sign() * (b.abs() - l1).clamp(min=0) / a
    torch.testing.assert_close(found.x, expected, atol=1e-6, rtol=0)
    assert torch.equal(found.x == 0, expected == 0)


def test_training_goes_from_uniform_to_below_the_unigrams(corpus: Corpus):
    model, unigrams = (
        LogLinear(vocabulary_size=len(corpus.vocabulary), **OPTIONS | changed)
        for changed in ({"l1": [0.0, 0.5]}, {"order": 1, "l2": [0.1]})
    )
    assert score(model, corpus.splits["valid"], "sentence").perplexity == pytest.approx(model.vocabulary_size, rel=1e-4)
    model.estimate(corpus)
    unigrams.estimate(corpus)
    trained, alone = (score(m, corpus.splits["valid"], "sentence").perplexity for m in (model, unigrams))
    assert trained < alone < model.vocabulary_size


@pytest.mark.parametrize("option", ["l2", "l1"])
def test_strengths_are_for_each_length_the_last_for_all_longer(option: str):
    """Templates: unigrams, bigrams, the class bigram, trigrams; from coarse to fine."""
    templates = {"templates": ["c1"], "classes": 2}
    for strengths, expected in (([1.0, 2.0], [1.0, 2.0, 2.0, 2.0]), ([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 2.0, 3.0])):
        model = LogLinear(vocabulary_size=V, **OPTIONS | templates | {option: strengths})
        assert getattr(model.exponential, option) == expected
    with pytest.raises(UserError, match=rf"model\.{option}"):
        LogLinear(vocabulary_size=V, **OPTIONS | {option: []})


@pytest.mark.parametrize("text", ["", "w", "w0", "x1", "w1w2", "w1,w2", "c0 w1", "w3"])
def test_a_template_that_is_none_is_one_line(text: str):
    with pytest.raises(UserError, match=r"model\.templates: '"):
        LogLinear(vocabulary_size=V, **OPTIONS | {"templates": [text]})


def test_templates_of_classes_need_their_number():
    with pytest.raises(UserError, match=r"model\.classes"):
        LogLinear(vocabulary_size=V, **OPTIONS | {"templates": ["c1 w2"]})


def test_more_features_than_memory_holds_are_one_line(corpus: Corpus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lmzoo.models.maxent.features.MOST_PAIRS", 3000)
    model = LogLinear(vocabulary_size=len(corpus.vocabulary), **OPTIONS | {"templates": ["w2"]})
    with pytest.raises(UserError, match="leave out skips"):
        model.estimate(corpus)


def test_templates_help_where_they_are_the_source_s(corpus: Corpus):
    """Words drawn by what stood two places before."""
    chance = torch.Generator().manual_seed(0)
    table = torch.rand(20, 20, generator=chance) ** 8 + 1e-3
    words = [0, 0]
    for _ in range(4000):
        words.append(int(torch.multinomial(table[words[-2]], 1, generator=chance)))
    words = [word + 1 for word in words]  # one long line
    text = SimpleNamespace(train=torch.tensor([*words[:3000], 0]))
    plain, skipping = (
        LogLinear(vocabulary_size=21, **OPTIONS | {"order": 3, "l2": [0.1, 2.0], "templates": templates})
        for templates in ([], ["w2"])
    )
    for model in (plain, skipping):
        model.estimate(text)
    plain, skipping = (score(m, torch.tensor(words[3000:]), "stream").perplexity for m in (plain, skipping))
    assert skipping < 0.9 * plain


def minibatches(run_dir: Path, *overrides: str) -> dict[str, Any]:
    """Windows of the same length, since each weighs the same."""
    text = ["corpus=markov", "corpus.words=20", "corpus.train=2000", "corpus.valid=300", "corpus.test=300"]
    model = ["model=loglinear", "model.order=2", "model.l2=[0.1,2.0]", "model.l1=[0]", "model.tolerance=1e-9"]
    windows = ["trainer.batch_size=1", "trainer.bptt=507", "device=cpu"]
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        options = [*text, *model, *windows, "optimizer=adagrad", f"run_dir={run_dir}", *overrides]
        return OmegaConf.to_container(compose("train", options), resolve=True)  # pyright: ignore[reportReturnType]


def test_minibatches_reach_the_optimum(tmp_path: Path):
    """By the shared trainer, with AdaGrad."""
    ends = []
    for training in ("lbfgs", "minibatch"):
        config = minibatches(tmp_path / training, f"model.training={training}", "trainer.epochs=60")
        train(config)
        model, _ = lmzoo.load(tmp_path / training)
        tokens = load_corpus(config["corpus"]).train
        logprobs, _ = model(tokens[None], model.initial_state(1))
        ends.append(float((model.exponential.penalty() - logprobs.double().mean()).detach()))
        assert len(list(model.parameters())) == (training == "minibatch")
        following = model.predict(model.initial_state(1)).exp().sum()
        torch.testing.assert_close(following, torch.ones(()))
    assert -len(tokens) % 507 < 5
    assert ends[1] == pytest.approx(ends[0], abs=1e-4)


def test_stopped_minibatches_go_on_exactly(tmp_path: Path):
    """Though the size of the weights, and of the optimizer's sums, is known only after the text is read."""
    peace, stopped = (
        minibatches(tmp_path / name, "model.training=minibatch", "trainer.epochs=3") for name in ("peace", "stopped")
    )
    train(peace)
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 5, signal.SIGTERM)
        with pytest.raises(Interrupted):
            train(stopped)
    train(stopped)
    one, other = (torch.load(tmp_path / name / "last.pt", weights_only=True) for name in ("peace", "stopped"))
    assert torch.equal(one["model"]["exponential.weights"], other["model"]["exponential.weights"])
    assert torch.equal(one["optimizer"]["state"][0]["sum"], other["optimizer"]["state"][0]["sum"])


@pytest.mark.slow
def test_penn_treebank_s_published_perplexity_is_reached(ptb: Corpus):
    options = OmegaConf.to_container(OmegaConf.load(CONFIGS / "model" / "loglinear.yaml"))
    model = models.build(options, vocabulary_size=len(ptb.vocabulary))
    model.estimate(ptb)
    assert score(model, ptb.splits["test"], "sentence").perplexity < 142.1
