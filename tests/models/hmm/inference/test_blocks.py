"""The recursion over blocks against enumeration and autograd at small size."""

import itertools

import pytest
import torch
from hmm_oracle import EXACT, assert_exact_in_single_precision, assert_same_gradients, normal

from lmzoo.models.hmm.inference import blocks


def oracle(belief, tiles, pair, emission):
    """The recursion in log space, one state after another."""
    logprobs = []
    for t in range(pair.shape[1]):
        score = (belief[:, :, None] + tiles[pair[:, t]]).logsumexp(1) + emission[:, t]
        logprobs.append(score.logsumexp(1))
        belief = score - logprobs[-1][:, None]
    return torch.stack(logprobs, 1), belief


def example(B=3, T=5, P=4, S=3, scale=1.0):
    pair = torch.randint(P, (B, T), generator=torch.Generator().manual_seed(3))
    return [normal(B, S), scale * normal(P, S, S, seed=1), pair, scale * normal(B, T, S, seed=2)]


def test_forward_is_enumeration_of_all_paths():
    belief, tiles, pair, emission = example()
    logprobs, final = blocks.forward(belief, tiles, pair, emission)
    for b, length in itertools.product(range(3), range(1, 6)):
        by_last = [[] for _ in range(3)]
        for path in itertools.product(range(3), repeat=length + 1):
            arcs = range(length)
            score = belief[b, path[0]] + sum(tiles[pair[b, t], path[t], path[t + 1]] for t in arcs)
            by_last[path[-1]].append(score + sum(emission[b, t, path[t + 1]] for t in arcs))
        joint = torch.stack([torch.stack(scores).logsumexp(0) for scores in by_last])
        torch.testing.assert_close(logprobs[b, :length].sum(), joint.logsumexp(0), **EXACT)
    torch.testing.assert_close(final[b], joint.log_softmax(0), **EXACT)


@pytest.mark.parametrize(("B", "T", "S"), [(3, 5, 3), (1, 1, 1), (40, 3, 2), (2, 30, 4)])
def test_gradient_is_autograds_for_any_upstream_weights(B, T, S):
    belief, tiles, pair, emission = example(B, T, 4, S)
    inputs = [x.requires_grad_() for x in (belief, tiles, emission)]
    upstream = [normal(B, T, seed=4), normal(B, S, seed=5)]
    upstream[0][0, T // 2 :] = 0  # as for padding
    ours, theirs = blocks.forward(belief, tiles, pair, emission), oracle(belief, tiles, pair, emission)
    assert_same_gradients(ours, theirs, upstream, inputs)


def test_an_impossible_state_in_the_first_belief_is_left_out():
    belief, tiles, pair, emission = example()
    belief[0, 1] = -torch.inf
    inputs = [x.requires_grad_() for x in (belief, tiles, emission)]
    upstream = [normal(3, 5, seed=4), normal(3, 3, seed=5)]
    ours, theirs = blocks.forward(belief, tiles, pair, emission), oracle(belief, tiles, pair, emission)
    assert_same_gradients(ours, theirs, upstream, inputs)


@pytest.mark.parametrize("P", [1, 6])
@pytest.mark.parametrize("scale", [1.0, 10.0, 1e3, 1e6])
def test_extreme_parameters_are_exact_in_single_precision(scale, P):
    inputs = example(B=8, T=12, P=P, S=4, scale=scale)
    inputs = [x if x.dtype == torch.int64 else x.float() for x in inputs]
    assert_exact_in_single_precision(blocks.forward, oracle, inputs, normal(8, 12, seed=4), scale)


def test_an_impossible_token_has_probability_zero_and_no_gradient_that_is_not_finite():
    belief, tiles, pair, emission = example()
    tiles[0, 0], tiles[pair[2, 0], :, 1] = -torch.inf, -torch.inf
    emission[1, 2] = -torch.inf
    inputs = [x.requires_grad_() for x in (belief, tiles, emission)]
    logprobs, final = blocks.forward(inputs[0], inputs[1], pair, inputs[2])
    assert logprobs[1].isneginf().tolist() == [False, False, True, False, False]
    again = torch.full((1, 3), 1 / 3, dtype=belief.dtype).log()
    after, _ = blocks.forward(again, inputs[1], pair[1:2, 3:], inputs[2][1:2, 3:])
    torch.testing.assert_close(logprobs[1:2, 3:], after, **EXACT)
    assert logprobs[[0, 2]].isfinite().all()
    assert not final.isnan().any()
    assert all(part.isfinite().all() for part in torch.autograd.grad(logprobs.exp().sum(), inputs))
