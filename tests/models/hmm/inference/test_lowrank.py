"""Transition tiles of low rank against the kernel's definition at small size."""

import pytest
import torch
from hmm_oracle import assert_same_gradients, gradients, normal

from lmzoo.models.hmm.inference import lowrank


@pytest.mark.parametrize("weighted", [True, False])
def test_tiles_are_cut_from_the_normalised_kernel(weighted):
    origin, destination = (x.requires_grad_() for x in (normal(4, 3, 5), normal(4, 3, 5, seed=1)))
    source, target = torch.tensor([0, 0, 2, 3, 3]), torch.tensor([1, 3, 2, 0, 1])
    tiles = lowrank.tiles(*lowrank.factors(origin, destination, weighted=weighted), source, target)
    phi = destination.exp().flatten(0, 1).T  # (5, 12) of features and states
    if not weighted:
        phi = phi / phi.sum(1, keepdim=True)
    kernel = origin.exp().flatten(0, 1) @ phi
    dense = (kernel / kernel.sum(1, keepdim=True)).log().view(4, 3, 4, 3)
    upstream = [normal(*tiles.shape, seed=2)]
    assert_same_gradients([tiles], [dense[source, :, target]], upstream, [origin, destination])


@pytest.mark.parametrize("weighted", [True, False])
def test_tiles_of_features_in_clusters_are_those_of_a_kernel_that_is_zero_between_clusters(weighted):
    origin, destination = (x.requires_grad_() for x in (normal(4, 3, 8), normal(4, 3, 2, seed=1)))
    source, target = torch.tensor([0, 0, 2, 3, 3]), torch.tensor([1, 3, 2, 0, 1])
    tiles = lowrank.block_tiles(*lowrank.block_factors(origin, destination, weighted=weighted), source, target)
    phi = torch.block_diag(*destination.exp().mT)  # (8, 12) of features and states
    if not weighted:
        phi = phi / phi.sum(1, keepdim=True)
    kernel = origin.exp().flatten(0, 1) @ phi
    dense = (kernel / kernel.sum(1, keepdim=True)).log().view(4, 3, 4, 3)
    upstream = [normal(*tiles.shape, seed=2)]
    assert_same_gradients([tiles], [dense[source, :, target]], upstream, [origin, destination])


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_factors_are_distributions_at_any_scale_in_single_precision(scale, weighted):
    logits = scale * normal(4, 3, 5).float(), scale * normal(4, 3, 5, seed=1).float()
    P, Q = lowrank.factors(*logits, weighted=weighted)
    torch.testing.assert_close(P.exp().sum(2), torch.ones(4, 3))
    torch.testing.assert_close(Q.exp().sum((0, 1)), torch.ones(5))
    every = torch.arange(16)
    logits = scale * normal(4, 3, 8).float(), scale * normal(4, 3, 2, seed=1).float()
    in_clusters = lowrank.block_factors(*logits, weighted=weighted)
    for tiles in (
        lowrank.tiles(P, Q, every // 4, every % 4),
        lowrank.block_tiles(*in_clusters, every // 4, every % 4),
    ):
        assert tiles.isfinite().all()
        torch.testing.assert_close(tiles.view(4, 4, 3, 3).exp().sum((1, 3)), torch.ones(4, 3))


@pytest.mark.parametrize("block_features", [True, False])
@pytest.mark.parametrize("scale", [1.0, 30.0, 1e4])
def test_tiles_that_underflow_are_those_of_double_precision(scale, block_features):
    source, target = torch.tensor([0, 0, 2, 3, 3]), torch.tensor([1, 3, 2, 0, 1])
    sizes = ((4, 4, 3, 2), (4, 2, 3)) if block_features else ((4, 3, 5), (4, 3, 5))
    P, Q = ((scale * normal(*size, seed=seed)).log_softmax(-1).float() for seed, size in enumerate(sizes))
    cut = lowrank.block_tiles if block_features else lowrank.tiles
    upstream, results = normal(5, 3, 3, seed=2), []
    for dtype in (torch.float32, torch.float64):
        p, q = (x.to(dtype).requires_grad_() for x in (P, Q))
        if dtype == torch.float32:
            found = cut(p, q, source, target)
        elif block_features:
            found = (p[source, target][..., None] + q[target][:, None]).logsumexp(2)
        else:
            found = (p[source][:, :, None] + q[target][:, None]).logsumexp(3)
        results.append((found, *gradients([found], [upstream.to(dtype)], [p, q])))
    for mine, expected in zip(*results, strict=True):
        torch.testing.assert_close(mine.double(), expected, rtol=1e-5, atol=1e-5)


def test_directions_are_orthogonal_and_as_long_as_normal_vectors():
    torch.manual_seed(0)
    W = lowrank.orthogonal_rows(40, 16).double()
    for rows in W.split(16):
        gram = rows @ rows.T
        torch.testing.assert_close(gram, gram.diagonal().diag(), atol=1e-4, rtol=0)
    assert abs(lowrank.orthogonal_rows(4000, 16).square().sum(1).mean() - 1) < 0.03
