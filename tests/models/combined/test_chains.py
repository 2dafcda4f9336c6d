"""Mixtures and n-grams as hidden Markov models."""

import math

import pytest
import torch
from pattern_oracle import VOCABULARY, encoded, make, matching, scores

from lmzoo.models.combined.chains import ChainMixture, chain_of
from lmzoo.models.combined.constrained import Constrained
from lmzoo.models.hmm.inference.product import Product
from lmzoo.protocol.patterns import Pattern


def test_a_chain_is_made_again_at_another_temperature():
    model = make("twolevel_hmm")
    before = chain_of(model)
    assert chain_of(model) is before
    model.distributions.transitions.temperature = 0.5
    after = chain_of(model)
    assert not torch.equal(
        before.step_backward(torch.eye(len(before.start)).log()), after.step_backward(torch.eye(len(after.start)).log())
    )


def test_a_mixture_of_chains():
    one, other = make("hmm"), make("twolevel_hmm", seed=2)
    first, second = scores(one), scores(other)
    with torch.no_grad():
        chain = ChainMixture([chain_of(one), chain_of(other)], torch.tensor([0.3, 0.7]))
        found = Product(chain, Pattern.parse("… a _ & ..4", VOCABULARY).automaton())
    strings = matching("(?=.{0,4}$).*a.")
    mixed = {s: 0.3 * math.exp(first[s]) + 0.7 * math.exp(second[s]) for s in strings}
    assert math.exp(found.logprob) == pytest.approx(sum(mixed.values()))
    expected = sum(p * s.count("b") for s, p in mixed.items()) / sum(mixed.values())
    assert float(found.word_counts().sum(0)[2]) == pytest.approx(expected)
    exact = Constrained(found)
    with torch.no_grad():
        logprob = exact(torch.tensor([encoded("bac")]), exact.initial_state(1))[0].sum()
    assert float(logprob) == pytest.approx(math.log(mixed["bac"] / sum(mixed.values())))
