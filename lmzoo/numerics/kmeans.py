"""k-means: Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 28 (1982)."""

import torch
from torch import Tensor

CHUNK = 2**22
"""How many distances exist at a time."""


def kmeans(x: Tensor, k: int, iterations: int) -> Tensor:
    """Cluster points by Lloyd's algorithm, from ``k`` of them drawn by PyTorch's generator.

    A centroid without points moves to the point that is farthest from its own centroid, so no cluster is empty where
    there are ``k`` different points. Of at most ``k`` points each has a cluster to itself.

    Args:
        x: (N, h) points.
        k: the number of clusters.
        iterations: how many times the centroids move.

    Returns: (N,) int64 the cluster of each point, that of the nearest centroid.
    """
    if len(x) <= k:
        return torch.arange(len(x), device=x.device)
    x = x - x.mean(0)  # distances are differences of squares, whose rounding error grows with the length of x
    return lloyd(x, x[torch.randperm(len(x))[:k].to(x.device)], iterations)[0]


def lloyd(x: Tensor, centroids: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """The cluster of each point and the (k, h) centroids after some iterations from given centroids."""
    labels, distances = nearest(x, centroids)
    for _ in range(iterations):
        counts = labels.bincount(minlength=len(centroids))
        centroids = torch.zeros_like(centroids).index_add_(0, labels, x) / counts[:, None]
        empty = (counts == 0).nonzero()[:, 0]
        centroids[empty] = x[distances.topk(len(empty)).indices]
        labels, distances = nearest(x, centroids)
    return labels, centroids


def nearest(x: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """(N,) the nearest of (k, h) centroids to each of (N, h) points, and the squared distance to it."""
    squares = centroids.square().sum(1)
    parts = [
        torch.addmm(squares, rows, centroids.T, alpha=-2).min(1) for rows in x.split(max(1, CHUNK // len(centroids)))
    ]
    return torch.cat([part.indices for part in parts]), torch.cat([part.values for part in parts]) + x.square().sum(1)
