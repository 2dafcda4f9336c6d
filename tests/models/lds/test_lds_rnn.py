"""The recurrent network that starts from a linear dynamical system."""

import dataclasses
from typing import Any

import pytest
import torch

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.models.lds.lds import LinearDynamicalSystem
from lmzoo.models.lds.lds_rnn import LDSRNN
from lmzoo.protocol.model import models

SYSTEM: dict[str, Any] = {"hidden": 3, "blocks": 4, "lags": 7, "pseudocount": 1.0, "iterations": 3, "vectors": None,
                          "classes": None, "clustering": "brown"}  # fmt: skip
NETWORK: dict[str, Any] = defaults("model", "lds_rnn") | {"dropout": 0.0}
for option in ("name", "dynamics", "input"):
    del NETWORK[option]


def system(corpus: Corpus, **changed: Any) -> LinearDynamicalSystem:
    model = LinearDynamicalSystem(vocabulary_size=20, **SYSTEM | changed).double()
    model.estimate(corpus)
    return model


def network(corpus: Corpus, dynamics: bool = True, input: bool = True, **changed: Any) -> LDSRNN:
    torch.manual_seed(0)
    options = NETWORK | SYSTEM | changed
    model = LDSRNN(vocabulary_size=20, dynamics=dynamics, input=input, **options).double()
    model.estimate(corpus)
    return model


def test_without_tanh_the_network_is_the_kalman_filter(hmm_corpus: Corpus):
    filtering, model = system(hmm_corpus), network(hmm_corpus)
    tokens = hmm_corpus.splits["train"][None, :500]
    f = filtering.filter(tokens, (torch.zeros(1, 3).double(),))[0]
    layer, h, states = model.recurrent, torch.zeros(3).double(), []
    for x in model.embedding(tokens[0]):
        h = layer.weight_ih_l0 @ x + layer.bias_ih_l0 + layer.weight_hh_l0 @ h + layer.bias_hh_l0
        states.append(h)
    torch.testing.assert_close(torch.stack(states), f @ (0.5 * filtering.whitener), atol=1e-10, rtol=0)


@pytest.mark.parametrize(("dynamics", "input"), [(True, False), (False, True), (False, False)])
def test_each_part_starts_from_the_system_or_as_in_an_rnn(hmm_corpus: Corpus, dynamics: bool, input: bool):
    whole, model = network(hmm_corpus), network(hmm_corpus, dynamics, input)
    torch.manual_seed(0)
    plain = models.build(
        defaults("model", "rnn") | {"embedding": 3, "hidden": 3, "dropout": 0.0, "tied": False}, vocabulary_size=20
    ).double()
    for name, mine in {
        "recurrent.weight_hh_l0": dynamics,
        "embedding.weight": input,
        "recurrent.weight_ih_l0": input,
        "output.weight": False,
        "output.bias": dynamics or input,
    }.items():
        expected = (whole if mine else plain).get_parameter(name)
        torch.testing.assert_close(model.get_parameter(name), expected, atol=1e-10, rtol=0, msg=name)


def test_the_vector_of_a_rare_word_is_cut(hmm_corpus: Corpus):
    """The last word occurs once: what the filter takes from it is far beyond tanh."""
    text = hmm_corpus.splits["train"].clamp(max=18)
    text[1000] = 19
    corpus = dataclasses.replace(hmm_corpus, splits={"train": text})
    filtering, model = (make(corpus, hidden=8, pseudocount=0.0) for make in (system, network))
    free = filtering.gains @ filtering.whitener / 2
    cut = model.embedding.weight.detach()
    assert float(free[19].norm()) > 1.5 * 8**0.5
    torch.testing.assert_close(cut[19], free[19] * (8**0.5 / free[19].norm()))
    torch.testing.assert_close(cut[:19], free[:19])


def test_regularised_layers_start_from_the_system_as_plain_ones_do(hmm_corpus: Corpus):
    plain, model = network(hmm_corpus, layers=2), network(hmm_corpus, layers=2, weight_drop=0.5, locked=True, last=5)
    for name in ("weight_hh_l0", "weight_ih_l0", "bias_ih_l0"):
        torch.testing.assert_close(model.recurrent.cells[0].get_parameter(name), plain.recurrent.get_parameter(name))
    torch.testing.assert_close(model.embedding.weight, plain.embedding.weight)


def test_mixed_softmaxes_start_from_the_frequencies_of_words(hmm_corpus: Corpus):
    torch.testing.assert_close(network(hmm_corpus, softmaxes=2).output.bias, network(hmm_corpus).output.bias)


def test_a_first_layer_of_another_size_than_the_system_is_refused(hmm_corpus: Corpus):
    with pytest.raises(UserError, match=r"model\.last=5: the only layer has model\.hidden=3 units; leave it out"):
        network(hmm_corpus, last=5)


def test_classes_start_from_their_words_frequencies(hmm_corpus: Corpus):
    model = network(hmm_corpus, classes=4)
    whole = torch.zeros(4).double().index_add(0, model.output.classes.word_class, model.output.bias.exp())
    torch.testing.assert_close(model.output.classes.S.bias.exp(), whole, atol=1e-10, rtol=0)
    assert model.output.classes.S.bias.exp().sum().item() == pytest.approx(1, abs=1e-6)
