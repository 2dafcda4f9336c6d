"""Ways to put the words of a text into clusters."""

from typing import Literal

import torch
from torch import Tensor

from lmzoo.words.brown import cached_brown_clusters

Clustering = Literal["brown", "uniform", "frequency"]


def word_clusters(
    clustering: Clustering, tokens: Tensor, vocabulary_size: int, clusters: int, option: str = "model.clusters"
) -> Tensor:
    """(V,) int64 cluster of each word; no cluster is empty.

    Args:
        clustering: ``brown``, clusters of maximal average mutual information (Brown et al. 1992); ``uniform``, clusters
            of equal size, drawn from PyTorch's generator; ``frequency``, clusters of about equal counts, the most
            frequent words in the first (Mikolov et al. 2011).
        tokens: (N,) int64 text, each line closed by `<eos>` (word 0).
        vocabulary_size: V.
        clusters: their number.
        option: its name in an error.

    Raises: UserError for ``brown``, if the text has fewer different words than there are clusters.
    """
    if clustering == "brown":
        return cached_brown_clusters(tokens, vocabulary_size, clusters, option)
    if clustering == "uniform":
        return (torch.randperm(vocabulary_size) % clusters).to(tokens.device)
    return frequency_clusters(tokens.bincount(minlength=vocabulary_size), clusters)


def frequency_clusters(counts: Tensor, clusters: int) -> Tensor:
    """(V,) counts -> (V,) clusters, filled one after another; each has its share of what the earlier ones have left."""
    cluster_of = torch.empty_like(counts)
    cluster, filled, left = 0, 0, int(counts.sum())
    for word in counts.argsort(descending=True, stable=True).tolist():
        cluster_of[word] = cluster
        filled += int(counts[word])
        if cluster < clusters - 1 and filled * (clusters - cluster) >= left:
            cluster, filled, left = cluster + 1, 0, left - filled
    return cluster_of
