"""Vectors of states: how long they are, how many there are, and their dropout."""

import pytest
import torch
from block_hmm_oracle import OF_MODEL, OPTIONS, make
from hmm_oracle import V, assert_dropout_of_vectors_acts_in_training_alone

from lmzoo.models.hmm.lowrank_hmm import POINTING
from lmzoo.protocol.model import models


@pytest.mark.parametrize(
    ("name", "scale"), [("vlhmm", 64**-0.5), ("twolevel_hmm", 64**-0.5), ("lowrank_hmm", 64**-0.25)]
)
@pytest.mark.parametrize("options", [{}, {"tied": True}, {"embeddings": "factored"}], ids=str)
def test_vectors_of_fresh_states_are_as_long_as_documented(name, scale, options):
    torch.manual_seed(0)
    sizes = {"states": 600, "dim": 64, "features": 3, "state_dropout": 0.0}
    known = OPTIONS | OF_MODEL[name]
    settings = known | {option: value for option, value in (sizes | options).items() if option in known}
    model = models.build({"name": name} | settings, vocabulary_size=V)
    states = torch.arange(600).view(3, 200)
    e = model.distributions.origin(states)
    v = model.distributions.transitions.destinations(e, states)
    if name == "lowrank_hmm" and options.get("embeddings") != "factored":
        v = (
            v - POINTING * model.distributions.transitions.targets[states * 3 // 600]
        )  # a third of the states to each feature
    assert v.std().item() == pytest.approx(scale, rel=0.1)
    if "tied" not in options:
        assert e.std().item() == pytest.approx(0.1, rel=0.1)


def test_factored_and_tied_vectors_make_the_papers_model():
    options = {"states": 2**15, "clusters": 128, "dim": 256, "embeddings": "factored", "tied": True}
    settings = {"name": "vlhmm"} | OPTIONS | options
    model = models.build(settings, vocabulary_size=10_000)
    assert round(sum(parameter.numel() for parameter in model.parameters()) / 1e6, 1) == 7.7


@pytest.mark.parametrize("embeddings", ["free", "factored"])
@pytest.mark.parametrize("name", OF_MODEL)
def test_dropout_of_vectors_acts_in_training_alone_and_leaves_strings_certain(name, embeddings):
    assert_dropout_of_vectors_acts_in_training_alone(
        lambda p: make(name, embeddings=embeddings, dropout=p, state_dropout=0.0)
    )


def test_destinations_of_the_dense_model_are_short_and_origins_long():
    torch.manual_seed(0)
    options = {"states": 600, "dim": 64, "dropout": 0.0, "state_dropout": 0.0}
    model = models.build({"name": "neural_hmm"} | options, vocabulary_size=V)
    assert model.origin.weight.std().item() == pytest.approx(1, rel=0.1)
    assert model.destination.weight.std().item() == pytest.approx(64**-0.5, rel=0.1)
