"""State dropout of block-sparse HMMs: which states are left out, and the belief that is carried over."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from block_hmm_oracle import OF_MODEL, dense_forward, make
from hmm_oracle import assert_same_with_gradients, words

from lmzoo.models.hmm.block_hmm import BlockHMM


@pytest.fixture(params=OF_MODEL)
def build(request) -> Callable[..., BlockHMM]:
    return lambda **options: make(request.param, **options)


@pytest.mark.parametrize(
    ("size", "dropout", "expected"), [(4, 0.5, 2), (8, 0.5, 4), (4, 0.9, 1), (5, 0.25, 4), (1, 0.5, 1)]
)
def test_dropout_keeps_its_share_of_every_cluster_and_all_states_are_back_in_evaluation(
    build, size, dropout, expected, monkeypatch
):
    model = build(states=3 * size, state_dropout=dropout)
    group_size = model.group_size
    monkeypatch.setattr(type(model.distributions), "forward", lambda *_: [None] * 3)  # takes long, and draws nothing
    draws = torch.stack([model.tables().active[:3] for _ in range(200)])  # (200, M, K)
    in_groups = getattr(model.options, "block_features", False) and size % 2 == 0
    assert group_size == (2 if in_groups else 1)
    expected = max(expected, group_size)
    assert draws.shape[2] == expected
    first = draws[:, :, ::group_size]  # of each group
    assert draws.equal((first[:, :, :, None] + torch.arange(group_size)).flatten(2))
    assert not (first % group_size).any()
    times = F.one_hot(draws, size).sum(2)  # (200, M, S)
    assert times.max() == 1
    assert (times.double().mean(0) - expected / size).abs().max() < 0.15
    assert model.eval().tables().active[:3].tolist() == [list(range(size))] * 3


@pytest.mark.parametrize("dropout", [0.0, 0.5, 0.75])
def test_belief_is_carried_on_to_the_states_newly_kept(build, dropout):
    model = build(state_dropout=dropout)
    tokens, weights = words(40, 5), torch.randn(40, 5, dtype=torch.float64)
    torch.manual_seed(3)
    first, second = model.tables().active, model.tables().active
    torch.manual_seed(3)
    left, state = model(tokens[:, :3], model.initial_state(40))
    right, _ = model(tokens[:, 3:], state)
    expected_left, belief = dense_forward(model, tokens[:, :3], first)
    expected_right, _ = dense_forward(model, tokens[:, 3:], second, before=(belief, tokens[:, 2]))
    logprobs, expected = torch.cat([left, right], 1), torch.cat([expected_left, expected_right], 1)
    assert_same_with_gradients(model, logprobs, expected, weights)


def test_frozen_within_frozen_is_the_same_draw(build):
    model = build(state_dropout=0.5)
    tokens = words(3, 5)
    with model.frozen():
        outer, _ = model(tokens, model.initial_state(3))
        with model.frozen():
            inner, _ = model(tokens, model.initial_state(3))
        after, _ = model(tokens, model.initial_state(3))
    assert inner.equal(outer)
    assert after.equal(outer)
    assert not model(tokens, model.initial_state(3))[0].equal(outer)
