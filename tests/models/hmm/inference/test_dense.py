"""The dense HMM's recursion against enumeration and autograd at small size."""

import itertools

import pytest
import torch
from hmm_oracle import EXACT, assert_exact_in_single_precision, assert_same_gradients, gradients, normal

from lmzoo.models.hmm.inference import dense
from lmzoo.models.hmm.inference.underflow import log_product


def example(B=3, T=5, Z=3, scale=1.0):
    prior, transition, emission = normal(B, Z), normal(Z, Z, seed=1), normal(B, T, Z, seed=2)
    return [(scale * prior).log_softmax(1), (scale * transition).log_softmax(1), scale * emission]


def oracle(belief, transition, emission):
    """The recursion in log space, its gradient left to autograd."""
    logprobs = []
    for t in range(emission.shape[1]):
        prior = belief if t == 0 else (belief[:, :, None] + transition).logsumexp(1)
        score = prior + emission[:, t]
        logprobs.append(score.logsumexp(1))
        belief = score - logprobs[-1][:, None]
    return torch.stack(logprobs, 1), belief


@pytest.mark.parametrize("holes", [False, True])
def test_forward_is_enumeration_of_all_paths(holes):
    prior, transition, emission = example()
    if holes:
        prior[1, 0] = transition[0, 1] = transition[2, 2] = emission[0, 3, 1] = emission[2, 0, 0] = -torch.inf
    logprobs, final = dense.forward(prior, transition, emission)
    for b, length in itertools.product(range(3), range(1, 6)):
        by_last = [[] for _ in range(3)]
        for path in itertools.product(range(3), repeat=length):
            score = prior[b, path[0]] + sum(transition[i, j] for i, j in itertools.pairwise(path))
            by_last[path[-1]].append(score + sum(emission[b, t, z] for t, z in enumerate(path)))
        joint = torch.stack([torch.stack(scores).logsumexp(0) for scores in by_last])
        torch.testing.assert_close(logprobs[b, :length].sum(), joint.logsumexp(0), **EXACT)
        if length == 5:
            torch.testing.assert_close(final[b], joint.log_softmax(0), **EXACT)


@pytest.mark.parametrize(("B", "T", "Z"), [(3, 5, 3), (1, 1, 1), (2, 4, 1), (9, 1, 4), (2, 30, 7), (0, 4, 3)])
def test_gradient_is_autograds_for_any_upstream_weights(B, T, Z):
    inputs = [x.requires_grad_() for x in example(B, T, Z)]
    upstream = [normal(B, T, seed=4), normal(B, Z, seed=5)]
    upstream[0][:1, T // 2 :] = 0  # as for padding
    assert_same_gradients(dense.forward(*inputs), oracle(*inputs), upstream, inputs)


def test_gradient_past_impossible_paths_is_that_of_very_unlikely_ones():
    inputs = example(T=6)
    for x, place in zip(inputs, [(1, 0), (0, 1), (0, 3, 1)], strict=True):
        x[place] = -torch.inf
    unlikely = [x.clamp_min(-300).requires_grad_() for x in inputs]  # e^-300 is lost in a sum
    ours, theirs = dense.forward(*[x.requires_grad_() for x in inputs]), oracle(*unlikely)
    upstream = [normal(3, 6, seed=4)]
    torch.testing.assert_close(ours[0], theirs[0], **EXACT)
    slopes = gradients(ours[:1], upstream, inputs), gradients(theirs[:1], upstream, unlikely)
    for mine, expected in zip(*slopes, strict=True):
        torch.testing.assert_close(mine, expected, **EXACT)


def test_gradient_of_the_likelihood_is_the_expected_counts_of_all_paths():
    prior, transition, emission = [x.requires_grad_() for x in example()]
    dense.forward(prior, transition, emission)[0].sum().backward()
    paths = torch.cartesian_prod(*[torch.arange(3)] * 5)  # (243, 5)
    steps, visits = torch.zeros(3, 3, dtype=torch.float64), torch.zeros(3, 5, 3, dtype=torch.float64)
    for b in range(3):
        score = prior[b, paths[:, 0]] + transition[paths[:, :-1], paths[:, 1:]].sum(1)
        weights = (score + emission[b, range(5), paths].sum(1)).softmax(0).detach()
        for path, weight in zip(paths.tolist(), weights, strict=True):
            visits[b, range(5), path] += weight
            for i, j in itertools.pairwise(path):
                steps[i, j] += weight
    torch.testing.assert_close(transition.grad, steps, **EXACT)
    torch.testing.assert_close(emission.grad, visits, **EXACT)
    torch.testing.assert_close(prior.grad, visits[:, 0], **EXACT)


def test_an_impossible_token_has_probability_zero_and_no_gradient_that_is_not_finite():
    inputs = example()
    inputs[2][1, 2] = -torch.inf
    logprobs, belief = dense.forward(*[x.requires_grad_() for x in inputs])
    assert logprobs[1].isneginf().tolist() == [False, False, True, False, False]
    restarted = log_product(torch.full((1, 3), 1 / 3, dtype=belief.dtype).log(), inputs[1])
    after, _ = dense.forward(restarted, inputs[1], inputs[2][1:2, 3:])
    torch.testing.assert_close(logprobs[1:2, 3:], after, **EXACT)
    assert logprobs[[0, 2]].isfinite().all()
    assert not belief.isnan().any()
    assert all(part.isfinite().all() for part in torch.autograd.grad(logprobs.exp().sum(), inputs))


def test_advance_is_a_sum_over_states():
    belief, transition = example()[:2]
    transition[:, 1] = -torch.inf
    moved = log_product(belief, transition.requires_grad_())
    torch.testing.assert_close(moved, (belief[:, :, None] + transition).logsumexp(1), **EXACT)
    (slope,) = torch.autograd.grad(moved.exp().sum(), transition)
    expected = (belief[:, :, None] + transition).exp().sum(0)
    torch.testing.assert_close(slope, expected, **EXACT)


@pytest.mark.parametrize("scale", [1.0, 10.0, 1e3, 1e6])
def test_extreme_parameters_are_exact_in_single_precision(scale):
    inputs = [x.float() for x in example(B=8, T=12, Z=6, scale=scale)]
    assert_exact_in_single_precision(dense.forward, oracle, inputs, normal(8, 12, seed=4), scale)


def test_a_path_that_underflows_at_first_is_exact_when_it_is_the_likeliest_in_the_end():
    prior, transition = torch.tensor([[0.0, -torch.inf]]), torch.tensor([[0.0, -102.5], [-torch.inf, 0.0]])
    emission = torch.tensor([-15.0, 0.0]).expand(1, 12, 2).contiguous()
    assert_exact_in_single_precision(dense.forward, oracle, (prior, transition, emission), torch.ones(1, 12), 100.0)


def test_what_is_all_but_impossible_stays_possible_in_single_precision():
    prior = torch.tensor([[0.0, -torch.inf]])
    emission = torch.tensor([[[0.0, -torch.inf], [-torch.inf, 0.0]]])  # from state 0 to state 1
    for step, possible in ((-150.0, True), (-torch.inf, False)):
        transition = torch.tensor([[0.0, step], [0.0, -150.0]])
        logprobs, _ = dense.forward(prior, transition, emission)
        assert logprobs.isfinite().all() == possible
        assert log_product(prior, transition)[0, 1].isfinite() == possible
