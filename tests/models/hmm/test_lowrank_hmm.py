"""The HMM with transitions of low rank: its kernel, its features, and the states that they lead to."""

import pytest
import torch
from block_hmm_oracle import make

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.models.hmm.lowrank_hmm import BlockLowRank, LowRank, LowRankTransitions
from lmzoo.protocol.model import models


def test_a_model_with_softmax_kernel_approximates_the_softmax(monkeypatch):
    monkeypatch.setattr(LowRankTransitions, "point_to_states", lambda *_: None)
    torch.manual_seed(1)
    options = defaults("model", "lowrank_hmm")
    options |= {"states": 6, "clusters": 2, "dim": 4, "features": 100_000, "feature_map": "softmax_kernel"}
    model = models.build(options, vocabulary_size=5).double().eval()
    chain = model.distributions.transitions
    u, v = chain.transition(model.distributions.origin.weight), chain.destinations.vectors.weight
    softmax = (u @ v.T / 4).log_softmax(1)
    assert softmax.std() > 0.1
    ours = torch.stack([model.successors(z) for z in range(6)])
    torch.testing.assert_close(ours, softmax, rtol=0, atol=0.02)


def test_features_that_cannot_be_shared_out_evenly_are_an_error():
    message = (
        "model.features=9 has to divide model.states=12 and be a multiple of model.clusters=3, .* one of 3, 6, 12$"
    )
    with pytest.raises(UserError, match=message):
        make("lowrank_hmm, features in clusters", features=9)


@pytest.mark.parametrize(
    ("features", "dim", "tied", "block_features"),
    [(48, 64, False, False), (24, 64, True, False), (8, 64, False, False), (48, 64, True, True), (24, 16, False, True)],
)
@pytest.mark.parametrize("feature_map", ["exp", "softmax"])
def test_a_fresh_models_features_lead_to_states_of_their_own(features, dim, tied, block_features, feature_map):
    sizes = {"states": 48, "clusters": 4, "dim": dim, "features": features, "tied": tied}
    maps = {"block_features": block_features, "feature_map": feature_map}
    transitions = make("lowrank_hmm", **sizes, **maps).eval().tables().transitions
    if isinstance(transitions, BlockLowRank):
        to_state = torch.block_diag(*transitions.Q.exp())  # (f, 48)
    else:
        assert isinstance(transitions, LowRank)
        to_state = transitions.Q.exp().flatten(0, 1).T
    own = to_state.view(features, features, -1)[range(features), range(features)]  # of each feature's own states
    assert (own.sum(1) > 0.5).all()
    assert (own > 0.1 / own.shape[1]).all()
