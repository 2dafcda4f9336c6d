"""What `LanguageModel` promises, for every registered model."""

import copy
import re
from pathlib import Path

import pytest
import torch
from shapes import compared

import lmzoo
from lmzoo import testing
from lmzoo.core.configs import choices, defaults
from lmzoo.corpus import EOS_ID, Corpus
from lmzoo.corpus.markov import MarkovSource
from lmzoo.corpus.windows import StreamWindows
from lmzoo.models.combined.mixture import Mixture
from lmzoo.models.hmm.hmm import HMM
from lmzoo.models.maxent.loglinear import LogLinear
from lmzoo.models.ngram.arpa_file import write_arpa
from lmzoo.protocol.abilities import Encoder
from lmzoo.protocol.model import LanguageModel, State, models, num_parameters
from lmzoo.protocol.perplexity import text_logprobs
from lmzoo.protocol.sampling import Decoding, beam_search, sample

NAMES = choices("model")
VARIANTS = {
    "nnlm, fading, in classes": {"context": "fading", "classes": 8},
    "logbilinear, diagonal, in classes": {"diagonal": True, "classes": 8},
    "lstm, in classes": {"classes": 8},
    "lstm, as AWD-LSTM": {
        **{"embedding": 20, "hidden": 30, "last": 20, "layers": 3, "locked": True},
        **{"dropout_words": 0.1, "weight_drop": 0.5, "ar": 2.0, "tar": 1.0},
    },
    "gru, residual, softmaxes mixed": {"layers": 2, "residual": True, "softmaxes": 3},
    "lds, in classes": {"classes": 8},
    "lds_rnn, in classes": {"classes": 8},
    "mixture, per sentence": {"per": "sentence"},
    "whole_sentence": {"clusters": [5], "samples": 500, "noise": 1, "min_count": 2},
    "cache, neural": {"theta": 0.3},
    "dynamic": {"rate": 0.01, "epsilon": 1e-4, "segment": 5},
    "vlhmm, factored and tied": {"embeddings": "factored", "tied": True},
    "lowrank_hmm, features in clusters": {"block_features": True, "feature_map": "softmax"},
    "hmm, from clusters, by gradient": {"begin": "clusters", "iterations": 1, "gradient": True},
}
"""Options that change how a model computes; its name comes first."""
LONG = ("logbilinear, diagonal, in classes", "gru, residual, softmaxes mixed", "lds, in classes", "cache, neural")
"""Variants whose parts other cases have, too."""


def options(case: str) -> dict:
    return defaults("model", case.partition(",")[0]) | VARIANTS.get(case, {})


@pytest.fixture(
    scope="module",
    params=[
        *NAMES,
        *(pytest.param(case, marks=[pytest.mark.slow] * (case in LONG)) for case in VARIANTS if case not in NAMES),
    ],
)
def settings(request: pytest.FixtureRequest, corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """The options of a model; some read what other models of the zoo wrote."""
    chosen = options(request.param)
    if request.param == "arpa":
        written = models.build(options("ngram") | {"order": 3}, vocabulary_size=len(corpus.vocabulary))
        written.estimate(corpus)
        chosen["path"] = str(tmp_path_factory.mktemp("arpa") / "model.arpa")
        write_arpa(Path(chosen["path"]), written.table, corpus.vocabulary.words)
    elif chosen["name"] == "mixture":
        chosen["runs"] = request.getfixturevalue("runs")
    elif "run" in chosen:
        chosen["run"] = request.getfixturevalue("runs")[1]
    return chosen


@pytest.fixture(scope="module")
def subject(settings: dict, corpus: Corpus) -> testing.Subject:
    return testing.subject(lambda: models.build(settings, vocabulary_size=len(corpus.vocabulary)), corpus)


@pytest.fixture(scope="module")
def model(subject: testing.Subject) -> LanguageModel:
    return subject.model


@pytest.fixture
def predicting(model: LanguageModel) -> LanguageModel:
    if model.whole_sentences:
        pytest.skip("is a model of whole sentences")
    return model


@pytest.fixture
def tokens(subject: testing.Subject) -> torch.Tensor:
    return subject.tokens


def score(model: LanguageModel, tokens: torch.Tensor, state: State | None = None) -> torch.Tensor:
    with torch.no_grad():
        return model(tokens, model.initial_state(len(tokens)) if state is None else state)[0]


def test_configuration_and_registry_agree():
    for name in NAMES:
        assert options(name)["name"] == name
    assert set(NAMES) == set(models.entries)


def test_every_model_cites_its_source():
    for name, entry in models.entries.items():
        module = __import__(entry.__module__, fromlist=["_"])
        assert re.search(r"\b(19|20)\d\d\b", f"{entry.__doc__} {module.__doc__}"), f"{name}: author and year?"


def test_every_model_says_how_many_numbers_it_has_learnt(model: LanguageModel):
    numbers = num_parameters(model)
    assert numbers is not None
    assert numbers >= sum(parameter.numel() for parameter in model.parameters())
    if isinstance(model, HMM):
        Z, V = model.states, model.vocabulary_size
        assert numbers == Z + Z * Z + V * Z
    elif isinstance(model, Mixture):
        assert numbers == len(model.weights) + sum(num_parameters(part) or 0 for part in model.components)
    elif isinstance(model, LogLinear):
        assert numbers == len(model.exponential.pairs)


@pytest.mark.parametrize("rule", testing.RULES)
def test_rules_are_kept(subject: testing.Subject, rule: str):
    with torch.no_grad():
        left_out = testing.RULES[rule](subject)
    if left_out:
        pytest.skip(left_out)


def test_tensors_have_the_shapes_of_the_docstrings(model: LanguageModel, tokens: torch.Tensor):
    model.train()
    with compared() as tensors:
        scores, state = model(tokens, model.initial_state(3))
        if any(parameter.requires_grad for parameter in model.parameters()):
            (-scores.mean() + model.penalty()).backward()
        model.eval()
        if not model.whole_sentences:
            model.predict(state)
        if isinstance(model, Encoder):
            model.embed(tokens)
    model.eval()
    model.zero_grad()
    assert tensors[type(model).forward.__qualname__] >= 2
    assert model.whole_sentences or tensors[type(model).predict.__qualname__] >= 1


@pytest.mark.parametrize(
    ("tokens", "rows", "message"),
    [
        (torch.tensor([1, 2]), 2, r"not \(2,\) torch.int64; tokens\[None\] is a batch of one"),
        (torch.tensor([[1.0]]), 1, r"not \(1, 1\) torch.float32"),
        (torch.zeros(2, 0, dtype=torch.int64), 2, r"\(B, T\) int64 with T of at least 1, not \(2, 0\) torch.int64"),
        (torch.tensor([[1, -1, 2]]), 1, "tokens: -1 is no word of 0 to 149"),
        (torch.tensor([[1, 150, 2]]), 1, "tokens: 150 is no word of 0 to 149"),
        (torch.ones(3, 1, dtype=torch.int64), 1, "the state is of 1 rows, the tokens of 3"),
    ],
)
def test_what_is_wrong_with_tokens_is_said(tokens: torch.Tensor, rows: int, message: str):
    model = models.build(options("rnn"), vocabulary_size=150)
    with pytest.raises(ValueError, match=message):
        model(tokens, model.initial_state(rows))


def test_a_state_that_is_no_tuple_is_refused():
    model = models.build(options("rnn"), vocabulary_size=150)
    with pytest.raises(ValueError, match="the state is a Tensor, not a tuple of tensors; correct initial_state of RNN"):
        model(torch.ones(3, 1, dtype=torch.int64), torch.zeros(3, 8))


def test_texts_drawn_side_by_side_are_those_drawn_alone(predicting: LanguageModel):
    """The likeliest words alone make the sentence that a beam of one finds, and it over and over again."""
    texts = sample(predicting, 30, 0, context="sentence", decoding=Decoding(top_k=1), samples=3)
    assert (texts.tokens == texts.tokens[0]).all()
    (sentence,) = beam_search(predicting, 1, 30)
    expected = (sentence.tokens * 30)[:30]
    assert texts.tokens[0].tolist() == expected
    assert float(texts.logprobs[0, : len(sentence.tokens)].sum()) == pytest.approx(sentence.logprob, rel=1e-5)
    drawn = sample(predicting, 30, 0, context="sentence", samples=4)
    for text, logprobs in zip(drawn.tokens, drawn.logprobs, strict=True):
        ends = torch.cat([text, torch.tensor([EOS_ID])])
        torch.testing.assert_close(text_logprobs(predicting, ends, "sentence").cpu()[:30], logprobs.float())


def advantage(model: LanguageModel, corpus: Corpus, source: MarkovSource) -> float:
    """How much better than its own source a model predicts the test text, in standard errors of the difference."""
    text = corpus.splits["test"]
    difference = score(model, text[None])[0].double() - source.logprobs(text)
    if difference.isneginf().any():  # of a model that is not smoothed
        return float("-inf")
    return float(difference.mean() / difference.std() * len(text) ** 0.5)


def test_no_model_beats_the_source_of_the_text(model: LanguageModel, corpus: Corpus, source: MarkovSource):
    assert advantage(model, corpus, source) < 3


def test_no_trained_model_beats_the_source_of_the_text(model: LanguageModel, corpus: Corpus, source: MarkovSource):
    learner = copy.deepcopy(model).train()
    parameters = [parameter for parameter in learner.parameters() if parameter.requires_grad]
    if not parameters:
        pytest.skip("has nothing to train")
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    before = score(model, corpus.splits["test"][None])
    for window in StreamWindows(corpus.splits["train"], batch_size=10, bptt=30).epoch(0):
        scores, _ = learner(window.tokens, learner.initial_state(10))
        optimizer.zero_grad()
        (-scores.mean() + learner.penalty()).backward()
        optimizer.step()
    learner.eval()
    assert not torch.equal(score(learner, corpus.splits["test"][None]), before)
    assert advantage(learner, corpus, source) < 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_scores_as_the_cpu_does(model: LanguageModel, tokens: torch.Tensor):
    expected = score(model, tokens)
    model.to("cuda")
    try:
        torch.testing.assert_close(score(model, tokens.cuda()).cpu(), expected, atol=1e-3, rtol=0)
    finally:
        model.to("cpu")


def test_importing_the_package_registers_the_zoo():
    assert lmzoo.__version__
    assert {"lstm", "gru", "rnn"} <= set(models.entries)
