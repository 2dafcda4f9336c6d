"""Transition tiles against tiles cut from the whole transition matrix."""

import pytest
import torch
from hmm_oracle import EXACT, assert_same_gradients, gradients, normal

from lmzoo.models.hmm.inference import tiles
from lmzoo.models.hmm.inference.tiles import local_tiles, normalised_tiles, normaliser, transition_tiles

SOURCE, TARGET = torch.tensor([0, 0, 2, 3, 3]), torch.tensor([1, 3, 2, 0, 1])


@pytest.mark.parametrize("chunk", [1, 40, 10_000])
def test_transition_tiles_are_cut_from_a_softmax_over_all_states(chunk, monkeypatch):
    monkeypatch.setitem(tiles.CHUNK, "cpu", chunk)
    U, V = (x.requires_grad_() for x in (normal(4, 3, 5), normal(4, 3, 5, seed=1)))
    dense = (U.flatten(0, 1) @ V.flatten(0, 1).T).log_softmax(1).view(4, 3, 4, 3)
    expected = dense[SOURCE, :, TARGET]
    assert_same_gradients([transition_tiles(U, V, SOURCE, TARGET)], [expected], [normal(5, 3, 3, seed=2)], [U, V])
    ahead = normalised_tiles(U, V, normaliser(U, V), SOURCE, TARGET)
    torch.testing.assert_close(ahead, expected, **EXACT)


def test_local_tiles_are_cut_from_softmaxes_over_the_states_of_each_cluster():
    U, V = (x.requires_grad_() for x in (normal(4, 3, 5), normal(4, 3, 5, seed=1)))
    arrival = normal(4, 3, 4, seed=2).log_softmax(2).requires_grad_()
    inside = (U.flatten(0, 1) @ V.flatten(0, 1).T).view(4, 3, 4, 3).log_softmax(3)
    expected = (arrival[:, :, :, None] + inside)[SOURCE, :, TARGET]
    ours = local_tiles(arrival, U, V, SOURCE, TARGET)
    assert_same_gradients([ours], [expected], [normal(5, 3, 3, seed=3)], [arrival, U, V])


@pytest.mark.parametrize("local", [False, True])
def test_under_autocast_the_gradient_is_that_of_rounded_vectors(local):
    U, V = (normal(4, 3, 5, seed=seed).float().requires_grad_() for seed in (0, 1))
    upstream = [normal(5, 3, 3, seed=2).float()]
    arrival = normal(4, 3, 4).float().log_softmax(2)

    def cut(U, V):
        return local_tiles(arrival, U, V, SOURCE, TARGET) if local else transition_tiles(U, V, SOURCE, TARGET)

    with torch.autocast("cpu", torch.bfloat16):
        ours = gradients([cut(U, V)], upstream, [U, V])
    rounded = U.bfloat16(), V.bfloat16()
    for mine, expected in zip(ours, gradients([cut(*rounded)], upstream, rounded), strict=True):
        assert mine.equal(expected.float())


def test_rows_that_are_not_kept_for_the_backward_pass_are_computed_again(monkeypatch):
    monkeypatch.setitem(tiles.CHUNK, "cpu", 2 * 6 * 3 * 3)  # chunks of two clusters, the last of one
    monkeypatch.setattr(tiles, "KEPT", 100)  # the first, of 108 numbers, alone; the last has 54
    U, V = (normal(6, 3, 5, seed=seed).requires_grad_() for seed in (0, 1))
    source, target = torch.tensor([0, 1, 2, 3, 4]), torch.tensor([1, 3, 2, 0, 1])
    expected = (U.flatten(0, 1) @ V.flatten(0, 1).T).log_softmax(1).view(6, 3, 6, 3)[source, :, target]
    assert_same_gradients([transition_tiles(U, V, source, target)], [expected], [normal(5, 3, 3, seed=2)], [U, V])
