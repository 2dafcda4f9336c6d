"""Ways to deal the words of a text into clusters."""

from typing import Literal

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.words.cache import cached_brown_clusters

Clustering = Literal["brown", "uniform", "frequency"]


def brown_classes(tokens: Tensor, vocabulary_size: int, classes: int, option: str) -> Tensor:
    """(V,) int64 Brown class of each word, as many as the ``option`` of that name asks for.

    Raises: UserError where the text has fewer different words.
    """
    different = len(tokens.unique())
    if classes > different:
        raise UserError(f"{option}={classes}: train has only {different} different words", "choose fewer")
    return cached_brown_clusters(tokens, vocabulary_size, classes)


def word_clusters(clustering: Clustering, tokens: Tensor, vocabulary_size: int, clusters: int) -> Tensor:
    """(V,) int64 cluster of each word, none empty.

    ``brown``: classes of maximal average mutual information (Brown et al. 1992). ``uniform``: dealt out at random,
    from PyTorch's generator, into clusters of equal size. ``frequency``: by frequency rank, the most frequent first,
    into clusters of equal counts, as far as single words allow (Mikolov et al. 2011).

    Raises: UserError where the text has fewer different words, for ``brown``.
    """
    if clustering == "brown":
        return brown_classes(tokens, vocabulary_size, clusters, "model.clusters")
    if clustering == "uniform":
        return (torch.randperm(vocabulary_size) % clusters).to(tokens.device)
    return frequency_clusters(tokens.bincount(minlength=vocabulary_size), clusters)


def frequency_clusters(counts: Tensor, clusters: int) -> Tensor:
    """(V,) counts -> (V,) clusters: each is filled until it has its share of what the earlier ones have left."""
    found = torch.empty_like(counts)
    cluster, filled, left = 0, 0, int(counts.sum())
    order = counts.argsort(descending=True, stable=True).tolist()
    for rank, word in enumerate(order):
        found[word] = cluster
        filled += int(counts[word])
        words, others = len(order) - rank - 1, clusters - cluster - 1  # still to come
        if others and (filled * (others + 1) >= left or words == others):
            cluster, filled, left = cluster + 1, 0, left - filled
    return found
