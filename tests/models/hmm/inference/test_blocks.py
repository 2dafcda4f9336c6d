"""The HMM's inference core against enumeration and autograd at small size."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.models.hmm.inference import blocks

EXACT = {"rtol": 1e-9, "atol": 1e-9}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gradients(outputs, upstream, inputs):
    return torch.autograd.grad(sum((o * g).sum() for o, g in zip(outputs, upstream, strict=True)), inputs)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 6))
def test_group_deals_every_item_once_and_wastes_less_than_a_row_a_label(labels, size):
    members, row_label = blocks.group(torch.tensor(labels), size)
    dealt = [(int(item), int(label)) for row, label in zip(members, row_label, strict=True) for item in row]
    assert sorted(dealt[i] for i in range(len(dealt)) if dealt[i][0] < len(labels)) == list(enumerate(labels))
    assert row_label.tolist() == sorted(
        label for label in set(labels) for _ in range(math.ceil(labels.count(label) / size))
    )


def test_emission_table_is_a_softmax_over_the_words_of_the_cluster():
    cluster = torch.arange(6).repeat_interleave(torch.tensor([70, 1, 33, 5, 8, 7]))
    cluster = cluster[torch.randperm(len(cluster), generator=torch.Generator().manual_seed(1))]
    V = len(cluster)
    H, W, bias = (x.requires_grad_() for x in (random(6, 2, 5), random(V, 5), random(V)))
    table = blocks.emission_table(H, W, bias, cluster)
    logits = (H.flatten(0, 1) @ W.T + bias).view(6, 2, V)
    outside = cluster != torch.arange(6)[:, None]  # (M, V)
    dense = logits.masked_fill(outside[:, None], -torch.inf).log_softmax(2)
    expected = dense[cluster, :, torch.arange(V)]  # (V, S)
    torch.testing.assert_close(table, expected, **EXACT)
    g = [random(V, 2, seed=1)]
    for ours, theirs in zip(gradients([table], g, [H, W, bias]), gradients([expected], g, [H, W, bias]), strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)


@pytest.mark.parametrize("chunk", [1, 40, 10_000])
def test_transition_tiles_are_cut_from_a_softmax_over_all_states(chunk, monkeypatch):
    monkeypatch.setitem(blocks.CHUNK, "cpu", chunk)
    U, V = (x.requires_grad_() for x in (random(4, 3, 5), random(4, 3, 5, seed=1)))
    source, target = torch.tensor([0, 0, 2, 3, 3]), torch.tensor([1, 3, 2, 0, 1])
    tiles = blocks.transition_tiles(U, V, source, target)
    dense = (U.flatten(0, 1) @ V.flatten(0, 1).T).log_softmax(1).view(4, 3, 4, 3)
    expected = dense[source, :, target]
    torch.testing.assert_close(tiles, expected, **EXACT)
    g = [random(5, 3, 3, seed=2)]
    for ours, theirs in zip(gradients([tiles], g, [U, V]), gradients([expected], g, [U, V]), strict=True):
        torch.testing.assert_close(ours, theirs, **EXACT)
    kept = blocks.normalised_tiles(U, V, blocks.normaliser(U, V), source, target)
    torch.testing.assert_close(kept, expected, **EXACT)


@pytest.mark.parametrize("local", [False, True])
def test_under_autocast_the_gradient_is_that_of_rounded_vectors(local):
    U, V = (random(4, 3, 5, seed=seed).float().requires_grad_() for seed in (0, 1))
    source, target, g = torch.tensor([0, 0, 2, 3, 3]), torch.tensor([1, 3, 2, 0, 1]), [random(5, 3, 3, seed=2).float()]
    arrival = random(4, 3, 4).float().log_softmax(2)

    def tiles(U, V):
        return (
            blocks.local_tiles(arrival, U, V, source, target)
            if local
            else blocks.transition_tiles(U, V, source, target)
        )

    with torch.autocast("cpu", torch.bfloat16):
        ours = gradients([tiles(U, V)], g, [U, V])
    rounded = U.bfloat16(), V.bfloat16()
    for mine, expected in zip(ours, gradients([tiles(*rounded)], g, rounded), strict=True):
        assert mine.equal(expected.float())


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
    return [random(B, S), scale * random(P, S, S, seed=1), pair, scale * random(B, T, S, seed=2)]


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
    g = [random(B, T, seed=4), random(B, S, seed=5)]
    g[0][0, T // 2 :] = 0  # as padding has it
    ours, theirs = blocks.forward(belief, tiles, pair, emission), oracle(belief, tiles, pair, emission)
    for mine, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, expected, **EXACT)
    for mine, expected in zip(gradients(ours, g, inputs), gradients(theirs, g, inputs), strict=True):
        torch.testing.assert_close(mine, expected, **EXACT)


def test_an_impossible_state_in_the_first_belief_is_left_out():
    belief, tiles, pair, emission = example()
    belief[0, 1] = -torch.inf
    inputs = [x.requires_grad_() for x in (belief, tiles, emission)]
    g = [random(3, 5, seed=4), random(3, 3, seed=5)]
    ours, theirs = blocks.forward(belief, tiles, pair, emission), oracle(belief, tiles, pair, emission)
    torch.testing.assert_close(ours, theirs, **EXACT)
    for mine, expected in zip(gradients(ours, g, inputs), gradients(theirs, g, inputs), strict=True):
        torch.testing.assert_close(mine, expected, **EXACT)


@pytest.mark.parametrize("scale", [10.0, 1e3, 1e6])
def test_extreme_parameters_stay_finite_in_single_precision(scale):
    inputs = [x if x.dtype == torch.int64 else x.float() for x in example(B=8, T=50, P=6, S=4, scale=scale)]
    leaves = [inputs[i].requires_grad_() for i in (0, 1, 3)]
    logprobs, final = blocks.forward(*inputs)
    assert logprobs.isfinite().all()
    assert final.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients([logprobs], [torch.ones(8, 50)], leaves))
    exact, _ = oracle(*[x if x.dtype == torch.int64 else x.double() for x in inputs])
    if scale < 100:
        torch.testing.assert_close(logprobs.double(), exact, rtol=1e-4, atol=1e-4)
