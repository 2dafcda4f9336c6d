"""The chain of a hidden Markov model."""

import torch
from pattern_oracle import make

from lmzoo.models.combined.chains import chain_of


def test_a_chain_is_made_again_at_another_temperature():
    model = make("twolevel_hmm")
    before = chain_of(model)
    assert chain_of(model) is before
    model.distributions.transitions.temperature = 0.5
    after = chain_of(model)
    assert not torch.equal(
        before.step_backward(torch.eye(len(before.start)).log()), after.step_backward(torch.eye(len(after.start)).log())
    )
