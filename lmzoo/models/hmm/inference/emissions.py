"""Emission tables of block-sparse hidden Markov models: log-softmaxes over the words of each cluster.

Chiu and Rush 2020. Log-probabilities are in nats. Nothing of size MS × V is stored, for M clusters of S states and V
words.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lmzoo.models.hmm.inference.grouping import group
from lmzoo.numerics.gpu_sync import TensorCache, on_host
from lmzoo.numerics.precision import at_least_float32
from lmzoo.numerics.sparse import grouped


@TensorCache
def _slots(cluster: Tensor) -> tuple[list[tuple[int, int]], Tensor, Tensor, Tensor]:
    """Where `emission_table` puts the words of each cluster.

    Returns: clusters and words of each batched product, padding included; (N,) the word in each slot, V in padding; the
        cluster of each row; and (V,) the slot of each word.
    """
    device, cluster, V = cluster.device, on_host(cluster), len(cluster)
    members, label = group(cluster, int(cluster.bincount().max()))  # a row for each cluster that has words
    sizes = (members < V).sum(1)
    octave = (2 * sizes - 1).log2().floor()  # ⌈log₂ size⌉
    rows = [(octave == value).nonzero()[:, 0] for value in octave.unique()]
    shapes = [(len(some), int(sizes[some].max())) for some in rows]
    words = torch.cat([members[some, :width].flatten() for some, (_, width) in zip(rows, shapes, strict=True)])
    present = (words < V).nonzero()[:, 0]
    slot = torch.empty_like(cluster).scatter(0, words[present], present)
    return shapes, words.to(device), label[torch.cat(rows)].to(device), slot.to(device)


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
    shapes, words, label, slot = _slots(cluster)
    counts = [number * width for number, width in shapes]
    vectors = F.embedding(words.clamp_max(V - 1), W).to(H.dtype).split(counts)
    offsets = torch.cat([bias, bias.new_full((1,), -torch.inf)])[words].to(H.dtype).split(counts)  # padding: impossible
    states = F.embedding(label, H.flatten(1)).view(-1, S, d).split([number for number, _ in shapes])
    tables = [
        # (n · width, S)
        _over_words(at_least_float32(torch.baddbmm(b.view(*shape, 1), w.view(*shape, d), h.mT))).flatten(0, 1)
        for b, w, h, shape in zip(offsets, vectors, states, shapes, strict=True)
    ]
    return F.embedding(slot, torch.cat(tables))  # (V, S)


def _over_words(logits: Tensor) -> Tensor:
    """(n, W, S) a log-softmax over W, which a GPU takes faster over what is contiguous."""
    return logits.mT.contiguous().log_softmax(2).mT if logits.is_cuda else logits.log_softmax(1)


def word_logprobs(H: Tensor, W: Tensor, bias: Tensor, cluster: Tensor, rows: Tensor, words: Tensor) -> Tensor:
    """(N,) log p(x | z) of `emission_table` for some pairs of states and words, each a word of the state's cluster.

    Args:
        H: (n, d) vectors of the different states.
        W, bias, cluster: as in `emission_table`.
        rows: (N,) rows of H.
        words: (N,).
    """
    M = int(cluster.max()) + 1
    order, widths, rank = grouped(cluster, M)  # words
    own = torch.zeros(len(H), dtype=torch.int64, device=H.device).scatter(0, rows, cluster[words])
    states, heights, place = grouped(own, M)
    parts = zip(
        F.embedding(states, H).split(heights.tolist()),
        F.embedding(order, W).split(widths.tolist()),
        bias[order].split(widths.tolist()),
        strict=True,
    )
    tables = torch.cat(
        [at_least_float32(torch.addmm(b, h, w.T)).log_softmax(1).flatten() for h, w, b in parts if len(h)]
    )
    c = cluster[words]
    earlier = (heights * widths).cumsum(0) - heights * widths
    return tables[earlier[c] + place[rows] * widths[c] + rank[words]]
