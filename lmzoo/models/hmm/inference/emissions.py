"""Emission tables of block-sparse hidden Markov models: log-softmaxes over the words of each cluster.

Chiu and Rush 2020. Log-probabilities are in nats. Nothing of size MS × V is stored, for M clusters of S states and V
words.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lmzoo.models.hmm.inference.grouping import group
from lmzoo.numerics.precision import single


def emission_table(H: Tensor, W: Tensor, bias: Tensor, cluster: Tensor) -> Tensor:
    """log p(x | z) of every word x under the states z of its cluster: a log-softmax of h_z·w_x + b_x over its words.

    Clusters whose sizes lie within a factor of two share a batched product. An example of V = 6 words, with clusters of
    sizes 3, 1 and 2; · is padding::

        word       0 1 2 3 4 5        members       products                        table row
        cluster    2 0 0 1 2 0   →    1 2 5    →    size 1:  3                 →    of word 0: that of slot 1
                                      3 · ·         size 2:  0 4                    of word 1: that of slot 3
                                      0 4 ·         size 3:  1 2 5                  …
                                                    slot     0 | 1 2 | 3 4 5

    Args:
        H: (M, S, d) state vectors.
        W: (V, d) word vectors.
        bias: (V,).
        cluster: (V,) int64, the cluster of each word.

    Returns: (V, S).
    """
    (V, d), S = W.shape, H.shape[1]
    cluster = cluster.cpu()  # the numbers of words are found there, so that a GPU is waited for once
    members, label = group(cluster, int(cluster.bincount().max()))  # a row for each cluster that has words
    sizes = (members < V).sum(1)
    octave = (2 * sizes - 1).log2().floor()  # ⌈log₂ size⌉
    rows = [(octave == value).nonzero()[:, 0] for value in octave.unique()]
    shapes = [(len(some), int(sizes[some].max())) for some in rows]
    words = torch.cat([members[some, :width].flatten() for some, (_, width) in zip(rows, shapes, strict=True)])
    counts = [number * width for number, width in shapes]
    present = (words < V).nonzero()[:, 0]
    slot = torch.empty_like(cluster).scatter(0, words[present], present)
    words, slot, label = (part.to(W.device, non_blocking=True) for part in (words, slot, label[torch.cat(rows)]))
    vectors = F.embedding(words.clamp_max(V - 1), W).to(H.dtype).split(counts)
    offsets = torch.cat([bias, bias.new_full((1,), -torch.inf)])[words].to(H.dtype).split(counts)  # padding: impossible
    states = F.embedding(label, H.flatten(1)).view(-1, S, d).split([len(some) for some in rows])
    tables = [
        single(torch.baddbmm(b.view(*shape, 1), w.view(*shape, d), h.mT)).log_softmax(1).flatten(0, 1)  # (n · width, S)
        for b, w, h, shape in zip(offsets, vectors, states, shapes, strict=True)
    ]
    return F.embedding(slot, torch.cat(tables))  # (V, S)


def within_cluster(logits: Tensor, cluster: Tensor) -> Tensor:
    """(V, S) logits of words under the states of their clusters -> log p(x | z), a log-softmax over each cluster."""
    V, S = logits.shape
    cluster = cluster.cpu()
    members, _ = group(cluster, int(cluster.bincount().max()))  # a row for each cluster that has words
    place = members.new_empty(V + 1).scatter(0, members.flatten(), torch.arange(members.numel()))
    members, place = (part.to(logits.device, non_blocking=True) for part in (members, place))
    padded = torch.cat([logits, logits.new_full((1, S), -torch.inf)])[members]
    return padded.log_softmax(1).flatten(0, 1)[place[:V]]
