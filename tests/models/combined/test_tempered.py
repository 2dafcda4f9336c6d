"""The temperature of a trained model, against its distributions taken to a power."""

import pytest
import torch

from lmzoo.corpus import Corpus
from lmzoo.models.combined.tempered import FITTED, Tempered, minimum
from lmzoo.protocol.model import models
from lmzoo.protocol.perplexity import text_logprobs
from lmzoo.runs.loading import load, load_sources


def tempered(run: str, corpus: Corpus) -> Tempered:
    model = models.build({"name": "tempered", "run": run}, vocabulary_size=len(corpus.vocabulary)).eval()
    load_sources(model, corpus)
    return model


@pytest.mark.parametrize("number", [0, 1])  # an n-gram model, which has no vectors, and a network
@torch.no_grad()
def test_probabilities_are_powers_of_those_of_the_model(number: int, runs: list[str], corpus: Corpus):
    model, (alone, _) = tempered(runs[number], corpus), load(runs[number])
    model.temperature.fill_(1.7)
    text, state, expected = corpus.splits["valid"][:40].long(), alone.initial_state(1), []
    for word in text:
        p = alone.predict(state)[0].double().exp() ** (1 / 1.7)
        expected.append(p[word] / p.sum())
        state = alone(word[None, None], state)[1]
    found, _ = model(text[None], model.initial_state(1))
    torch.testing.assert_close(found[0].double().exp(), torch.stack(expected), rtol=1e-4, atol=1e-8)


def test_the_temperature_is_the_best_on_the_first_tokens_of_valid(runs: list[str], corpus: Corpus):
    model = tempered(runs[1], corpus)
    model.estimate(corpus)
    text, best = corpus.truncated(FITTED).splits["valid"], float(model.temperature)

    def loss(temperature: float) -> float:
        model.temperature.fill_(temperature)
        return -float(text_logprobs(model, text, corpus.context).double().sum())

    assert min(map(loss, (best - 0.02, best + 0.02, 1.0))) >= loss(best)


def test_the_minimum_of_a_function_is_found_where_it_is():
    for place in (0.5, 0.7, 1.234, 2.0):
        calls = []
        found = minimum(lambda x, at=place, seen=calls: seen.append(x) or (x - at) ** 2, 0.5, 2.0, 0.005)
        assert abs(found - place) <= 0.005
        assert len(calls) <= 15
