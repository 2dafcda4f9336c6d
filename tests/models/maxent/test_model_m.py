"""Model M: its features, its distributions, and one class against the log-linear model."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.models.maxent.loglinear import LogLinear
from lmzoo.models.maxent.model_m import ModelM
from lmzoo.protocol.lines import stream_warning
from lmzoo.protocol.model import models
from lmzoo.protocol.perplexity import score
from lmzoo.words.brown import cached_brown_clusters


def options(name: str, **changed) -> dict:
    given = defaults("model", name)
    return {key: value for key, value in given.items() if key != "name"} | changed


SMALL = {"order": 3, "classes": 7, "class_templates": ["w2", "c1 w2"], "word_templates": ["w2", "c1 c2"]}


@pytest.fixture(scope="module")
def model(corpus: Corpus) -> ModelM:
    model = ModelM(vocabulary_size=len(corpus.vocabulary), **options("model_m", **SMALL)).double()
    model.estimate(corpus)
    return model


def test_features_are_the_class_s_ngrams_after_classes_and_after_words_and_the_word_s_after_words():
    model = ModelM(vocabulary_size=20, **options("model_m", order=3, classes=4))
    c0, c1, w1, c2, w2 = 0, 2, 3, 4, 5
    assert model.class_model.templates == [(), (c1,), (w1,), (c1, c2), (w1, w2)]
    assert model.word_model.templates == [(c0,), (c0, w1), (c0, w1, w2)]


def test_templates_and_classes_are_those_asked_for(model: ModelM, corpus: Corpus):
    c0, c1, c2, w2 = 0, 2, 4, 5
    assert {(w2,), (c1, w2)} <= set(model.class_model.templates)
    assert {(c0, w2), (c0, c1, c2)} <= set(model.word_model.templates)
    assert torch.equal(model.word_class, cached_brown_clusters(corpus.splits["train"], 150, 7))


@pytest.mark.parametrize("name", ["loglinear", "model_m"])
def test_no_warning_says_that_lines_are_scored_as_a_stream_as_none_affects_the_next(name: str):
    assert stream_warning(models.build({"name": name}, vocabulary_size=5), 2, "") is None


def test_each_factor_has_strengths_of_its_own():
    strengths = {"class_l2": [1.0], "class_l1": [2.0], "word_l2": [3.0], "word_l1": [4.0]}
    model = ModelM(vocabulary_size=20, **options("model_m", order=2, classes=4, **strengths))
    both = (model.class_model, model.word_model)
    assert [(set(part.l2), set(part.l1)) for part in both] == [({1.0}, {2.0}), ({3.0}, {4.0})]


@pytest.mark.parametrize("option", ["class_l2", "class_l1", "word_l2", "word_l1"])
def test_a_penalty_without_strengths_is_one_line(option: str):
    with pytest.raises(UserError, match=rf"model\.{option}"):
        ModelM(vocabulary_size=20, **options("model_m", classes=4, **{option: []}))


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 149), min_size=2, max_size=2))
def test_distributions_sum_to_one(model: ModelM, context: list[int]):
    """The distributions of words and of classes, after contexts that the text has and others."""
    history = torch.tensor([context])
    one = torch.ones(1, dtype=torch.float64)
    logprobs = model.next_logprobs(history)
    torch.testing.assert_close(logprobs.exp().sum(1), one, rtol=1e-9, atol=0)
    of_class = model.class_model.predict(model._attributes(history)).exp()
    by_class = torch.zeros_like(of_class[0]).index_add(0, model.word_class, logprobs[0].exp())
    torch.testing.assert_close(by_class, of_class[0], rtol=1e-9, atol=0)
    words = torch.arange(model.vocabulary_size)
    token_by_token = model.token_logprobs(history.expand(len(words), -1), words)
    torch.testing.assert_close(token_by_token, logprobs[0], rtol=1e-9, atol=1e-9)


def test_one_class_is_the_log_linear_model(corpus: Corpus):
    strengths = {"l2": [0.1, 2.0], "l1": [0.0]}
    kept = {"tolerance": 1e-9, "order": 3}
    types = len(corpus.vocabulary)
    word = {f"word_{name}": value for name, value in strengths.items()}
    one = ModelM(vocabulary_size=types, **options("model_m", classes=1, **word, **kept))
    plain = LogLinear(vocabulary_size=types, **options("loglinear", **strengths, **kept))
    for each in (one, plain):
        each.estimate(corpus)
    text = corpus.splits["valid"][None]
    expected, found = (each(text, each.initial_state(1))[0] for each in (plain, one))
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=0)


@pytest.mark.slow
def test_penn_treebank_s_goal_is_reached(ptb: Corpus):
    model = ModelM(len(ptb.vocabulary), **options("model_m", classes=150))
    model.estimate(ptb)
    assert score(model, ptb.splits["test"], "sentence").perplexity < 130
