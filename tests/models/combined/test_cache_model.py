"""The cache against a dictionary."""

import inspect
import math
from collections import deque

import pytest
import torch
from command_line import command

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.models.combined.cache import Cache
from lmzoo.protocol.abilities import HasVectors
from lmzoo.protocol.model import models
from lmzoo.protocol.perplexity import score
from lmzoo.runs.loading import load, load_sources

TEXT = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 0, 3, 1, 4, 1, 5, 9, 2, 0])


def cache(run: str, corpus: Corpus, weight: float, **changed: float) -> Cache:
    options = {"name": "cache", "run": run, "size": 6, "theta": 0.0} | changed
    model = models.build(options, vocabulary_size=len(corpus.vocabulary)).eval()
    load_sources(model, corpus)
    model.weight.fill_(weight)
    return model


@pytest.mark.parametrize("theta", [0.0, 7.0])
@torch.no_grad()
def test_each_word_has_the_probability_that_a_dictionary_gives_it(theta: float, runs: list[str], corpus: Corpus):
    weight, (alone, _) = 0.3, load(runs[1])
    state, last, expected = alone.initial_state(1), deque(maxlen=6), []
    for word in TEXT.tolist():
        query = alone.next_vector(state)[0][0]
        odds = {}
        for earlier, vector in last:
            odds[earlier] = odds.get(earlier, 0.0) + math.exp(theta * float(query @ vector))
        p, state = alone(torch.tensor([[word]]), state)
        own = float(p.exp())
        expected.append(0.7 * own + weight * odds.get(word, 0.0) / sum(odds.values()) if odds else own)
        last.append((word, query))
    model = cache(runs[1], corpus, weight, theta=theta)
    found, after = model(TEXT[None], model.initial_state(1))
    torch.testing.assert_close(found[0].exp(), torch.tensor(expected))
    torch.testing.assert_close(after[0][0], TEXT[-6:])


def test_every_python_finds_that_a_model_has_vectors(runs: list[str]):
    model, _ = load(runs[1])
    assert isinstance(model, HasVectors)
    for name in ("vectors", "next_vector", *getattr(HasVectors, "__annotations__", ())):
        assert inspect.getattr_static(model, name)  # the way of `isinstance` since Python 3.12


@pytest.mark.parametrize("theta", [0.0, 7.0])
def test_the_gradient_is_that_of_the_probabilities(theta: float, runs: list[str], corpus: Corpus):
    """Of words that are not in the cache, too: they have p_c = 0."""
    model = cache(runs[1], corpus, 0.3, theta=theta)
    alone = model.inner.requires_grad_()
    query, _ = alone.vectors(TEXT[None], alone.initial_state(1))
    p = alone.output(query[0], TEXT).exp()
    for t in range(1, len(TEXT)):
        last = slice(max(0, t - 6), t)
        odds = (theta * query[0, last] @ query[0, t]).exp()
        p = p.index_copy(0, torch.tensor([t]), 0.7 * p[t, None] + 0.3 * odds[TEXT[last] == TEXT[t]].sum() / odds.sum())
    parameters = list(alone.parameters())
    scores = model(TEXT[None], model.initial_state(1))[0]
    found, expected = (torch.autograd.grad(x.sum(), parameters) for x in (scores, p.log()))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("theta", [0.0, 7.0])
@torch.no_grad()
def test_scores_of_a_prefix_do_not_depend_on_what_follows(theta: float, runs: list[str], corpus: Corpus):
    model = cache(runs[1], corpus, 0.5, theta=theta, size=50)
    half = TEXT.repeat(2)
    contradicting = torch.cat([half, 149 - half])
    whole = model(contradicting[None], model.initial_state(1))[0][0]
    for length in (1, 17, 40, 55):
        prefix = model(contradicting[None, :length], model.initial_state(1))[0][0]
        torch.testing.assert_close(prefix, whole[:length])


def test_any_model_can_have_a_unigram_cache_and_no_other_weight_is_better(runs: list[str], corpus: Corpus):
    model = cache(runs[0], corpus, 0.0)
    model.estimate(corpus)
    best = float(model.weight)
    found = score(model, corpus.splits["valid"], "stream").logprob
    for other in (best - 0.01, best + 0.01):
        if other > 0:
            model.weight.fill_(other)
            assert score(model, corpus.splits["valid"], "stream").logprob < found
    with pytest.raises(UserError, match=r"^model\.theta=0\.3: ngram has no hidden vectors; set model\.theta=0$"):
        cache(runs[0], corpus, 0.0, theta=0.3).estimate(corpus)


def test_tables_of_its_model_are_kept_while_it_is_frozen(runs: list[str], corpus: Corpus):
    model = cache(runs[0], corpus, 0.3)
    with model.frozen():
        assert model.inner.table is model.inner.table
    assert model.inner.table is not model.inner.table


def test_a_state_begins_without_a_prediction(runs: list[str], corpus: Corpus, monkeypatch: pytest.MonkeyPatch):
    model = cache(runs[1], corpus, 0.3, theta=0.3)
    _, after = model(TEXT[None], model.initial_state(1))
    monkeypatch.setattr(model.inner.output, "predict", None)
    assert [part.shape for part in model.initial_state(1)] == [part.shape for part in after]


@pytest.mark.slow
def test_a_mixture_takes_a_cache_and_dynamic_evaluation(runs: list[str], text: list[str], folder):
    one = [*text, f"model.run={runs[1]}"]
    assert command(*one, "model=cache", "run_dir=cache").code == 0
    assert command(*one, "model=dynamic", "run_dir=dynamic").code == 0
    assert command(*text, "model=mixture", f"model.runs=[cache,dynamic,{runs[0]}]", "run_dir=all").code == 0
    said = command(*text, "model=cache", "run_dir=none").refused()
    assert "model.run=null: a trained run is needed; set model.run=FOLDER" in said
