"""The log-linear model: its options, its checkpoints, its two ways of training, and Penn Treebank."""

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from command_line import configuration, stop_at, train

import lmzoo
from lmzoo.core.configs import defaults
from lmzoo.core.errors import Interrupted, UserError
from lmzoo.corpus import Corpus, load_corpus
from lmzoo.models.maxent.loglinear import LogLinear
from lmzoo.protocol.model import models
from lmzoo.protocol.perplexity import score
from lmzoo.words.brown import cached_brown_clusters

V = 5
OPTIONS = defaults("model", "loglinear") | {
    "order": 3,
    "l2": [0.1, 5.0],
    "l1": [0.0],
    "tolerance": 1e-7,
}
del OPTIONS["name"]


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


def test_classes_are_the_brown_clusters_of_the_text(corpus: Corpus):
    changed = {"order": 2, "templates": ["c1"], "classes": 3, "max_iterations": 1}
    model = LogLinear(vocabulary_size=150, **OPTIONS | changed)
    model.estimate(corpus)
    assert torch.equal(model.word_class, cached_brown_clusters(corpus.splits["train"], 150, 3))


def test_a_word_that_the_text_lacks_is_possible():
    model = LogLinear(vocabulary_size=V, **OPTIONS)
    model.estimate(SimpleNamespace(splits={"train": torch.tensor([1, 2, 0])}))
    assert bool(torch.isfinite(model.predict(model.initial_state(1))).all())


@pytest.mark.parametrize("text", ["", "w", "w0", "x1", "w1w2", "w1,w2", "c0 w1", "w3"])
def test_a_template_that_is_none_is_one_line(text: str):
    with pytest.raises(UserError, match=r"model\.templates: '"):
        LogLinear(vocabulary_size=V, **OPTIONS | {"templates": [text]})


def test_templates_of_classes_need_their_number():
    with pytest.raises(UserError, match=r"model\.classes"):
        LogLinear(vocabulary_size=V, **OPTIONS | {"templates": ["c1 w2"]})
    with pytest.raises(UserError, match=r"model\.classes=3: no template names a class"):
        LogLinear(vocabulary_size=V, **OPTIONS | {"templates": ["w2"], "classes": 3})


def test_more_features_than_memory_holds_are_one_line(corpus: Corpus, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("lmzoo.models.maxent.features.MOST_PAIRS", 3000)
    model = LogLinear(vocabulary_size=len(corpus.vocabulary), **OPTIONS | {"templates": ["w2"]})
    with pytest.raises(UserError, match="leave out skips"):
        model.estimate(corpus)


def test_templates_help_where_they_are_the_source_s(corpus: Corpus):
    """Each word is drawn given the word two places before."""
    chance = torch.Generator().manual_seed(0)
    table = torch.rand(20, 20, generator=chance) ** 8 + 1e-3
    words = [0, 0]
    for _ in range(4000):
        words.append(int(torch.multinomial(table[words[-2]], 1, generator=chance)))
    words = [word + 1 for word in words]  # one long line
    text = SimpleNamespace(splits={"train": torch.tensor([*words[:3000], 0])})
    plain, skipping = (
        LogLinear(vocabulary_size=21, **OPTIONS | {"order": 3, "l2": [0.1, 2.0], "templates": templates})
        for templates in ([], ["w2"])
    )
    for model in (plain, skipping):
        model.estimate(text)
    plain, skipping = (score(m, torch.tensor(words[3000:]), "stream").perplexity for m in (plain, skipping))
    assert skipping < 0.9 * plain


def minibatches(run_dir: Path, *overrides: str) -> dict[str, Any]:
    """A run whose windows are all of the same length, since all windows have the same weight."""
    text = ["corpus=markov", "corpus.words=20", "corpus.train=2000", "corpus.valid=300", "corpus.test=300"]
    model = ["model=loglinear", "model.order=2", "model.l2=[0.1,2.0]", "model.l1=[0]", "model.tolerance=1e-9"]
    windows = ["trainer.batch_size=1", "trainer.bptt=507", "device=cpu"]
    return configuration(run_dir, *text, *model, *windows, "optimizer=adagrad", "optimizer.lr=1", *overrides)


@pytest.mark.slow
def test_minibatches_reach_the_optimum(tmp_path: Path):
    """By the shared trainer, with AdaGrad."""
    ends = []
    for training in ("lbfgs", "minibatch"):
        config = minibatches(tmp_path / training, f"model.training={training}", "trainer.epochs=60")
        train(config)
        model, _ = lmzoo.load(tmp_path / training)
        tokens = load_corpus(config["corpus"]).splits["train"]
        logprobs, _ = model(tokens[None], model.initial_state(1))
        ends.append(float((model.exponential.penalty() - logprobs.double().mean()).detach()))
        assert len(list(model.parameters())) == (training == "minibatch")
        following = model.predict(model.initial_state(1)).exp().sum()
        torch.testing.assert_close(following, torch.ones(()))
    assert -len(tokens) % 507 < 5
    assert ends[1] == pytest.approx(ends[0], abs=1e-4)


def test_stopped_minibatches_go_on_exactly(tmp_path: Path):
    """The size of the weights, and of the optimizer's sums, is known only from the checkpoint."""
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
    options = defaults("model", "loglinear")
    model = models.build(options, vocabulary_size=len(ptb.vocabulary))
    model.estimate(ptb)
    assert score(model, ptb.splits["test"], "sentence").perplexity < 142.1


def test_gradient_descent_alone_adds_the_penalty_to_its_loss(corpus: Corpus):
    penalties = []
    for training in ("minibatch", "lbfgs"):
        changed = {"training": training, "order": 1, "l2": [0.5], "max_iterations": 1}
        model = LogLinear(vocabulary_size=len(corpus.vocabulary), **OPTIONS | changed)
        model.estimate(corpus)
        with torch.no_grad():
            model.exponential.weights.fill_(2.0)
            penalties.append(float(model.penalty()))
    of_all = 0.5 * 2.0**2 / 2 * len(model.exponential.weights)
    assert penalties == [pytest.approx(of_all / len(corpus.splits["train"])), 0.0]
