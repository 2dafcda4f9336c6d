"""k-means, beside scikit-learn's."""

import pytest
import torch

from lmzoo.numerics.kmeans import kmeans, lloyd, nearest


def points(groups: int, each: int) -> torch.Tensor:
    torch.manual_seed(0)
    return (3 * torch.randn(groups, 1, 4) + torch.randn(groups, each, 4)).flatten(0, 1)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters", "ignore:Initial centroids")
@pytest.mark.parametrize("iterations", [0, 1, 7])
def test_lloyd_agrees_with_scikit_learn(iterations):
    cluster = pytest.importorskip("sklearn.cluster")
    x = points(5, 40).double()
    first = x[:6]
    labels, centroids = lloyd(x, first, iterations)
    expected = first
    for _ in range(iterations):  # scikit-learn's n_iter counts its last assignment, too
        theirs = cluster.KMeans(6, init=expected.numpy(), n_init=1, max_iter=1, tol=0).fit(x.numpy())
        expected = torch.from_numpy(theirs.cluster_centers_)
    torch.testing.assert_close(centroids, expected)
    assert labels.equal(torch.cdist(x, expected).argmin(1))


def test_nearest_has_the_squared_distance(monkeypatch):
    monkeypatch.setattr("lmzoo.numerics.kmeans.CHUNK", 12)
    x, centroids = points(2, 10).double(), points(3, 1).double()
    labels, distances = nearest(x, centroids)
    every = torch.cdist(x, centroids).square()
    torch.testing.assert_close(distances, every.min(1).values)
    assert labels.equal(every.argmin(1))


def test_labels_do_not_depend_on_the_origin():
    x = points(5, 40)
    labels = []
    for shift in (0, 1000):
        torch.manual_seed(1)
        labels.append(kmeans(x + shift, 5, 15))
    assert labels[0].equal(labels[1])


def test_no_cluster_is_empty():
    x = torch.tensor([[0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [0.0], [5.0], [7.0]])
    for seed in range(20):
        torch.manual_seed(seed)
        labels = kmeans(x, 3, 5)
        assert len(labels.unique()) == 3
    assert kmeans(x[:2], 3, 5).tolist() == [0, 1]
