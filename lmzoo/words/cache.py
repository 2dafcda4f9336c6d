"""Brown clusters, kept on disk for later runs."""

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.cache import kept
from lmzoo.words.brown import brown_clusters

VERSION = 1
"""A part of the cache's key. Raise it with every change of the clusters that `brown_clusters` finds."""


def cached_brown_clusters(tokens: Tensor, vocabulary_size: int, clusters: int, option: str = "clusters") -> Tensor:
    """`brown_clusters`, kept on disk as `kept` does."""
    given = f"{VERSION} {vocabulary_size} {clusters} ".encode() + tokens.cpu().numpy().tobytes()

    def compute() -> bytes:
        return brown_clusters(tokens, vocabulary_size, clusters, option).cpu().numpy().astype("<i8").tobytes()

    return torch.from_numpy(np.frombuffer(kept("brown", given, compute), dtype="<i8").copy()).to(tokens.device)
