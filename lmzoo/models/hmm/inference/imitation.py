"""Knowledge distillation: a two-level HMM imitates the predictions of another model.

Hinton, Vinyals & Dean, "Distilling the knowledge in a neural network", 2015, https://arxiv.org/abs/1503.02531
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.numerics.gpu_sync import on_host, to_device_async
from lmzoo.protocol.abilities import TeacherPredictions


def cross_entropy(
    taught: TeacherPredictions,
    tokens: Tensor,
    source: Tensor,
    beliefs: Tensor,
    emitted: Tensor,
    arrival: Tensor,
    emission: Tensor,
    cluster: Tensor,
) -> Tensor:
    """-Σ_c q(c) log p(c | x_<t) - Σ_w q(w | c_t) log p(w | x_<t, c_t), the mean over tokens; q is the teacher.

    c_t is the cluster of the true next word, and the second sum is over its words. So the cost of a token is that of M
    clusters and of one cluster's words; on a GPU that of all words, in memory, too. `<eos>` after `<eos>`, which is
    padding or an empty line, does not count.

    Args:
        taught: q.
        tokens: (B, T).
        source: (B, T) the cluster of the token before each, M at the start.
        beliefs: (T + 1, B, K) log p(z_t | x_≤t) over the K states of a cluster, first that before the window.
        emitted: (B, T, K) log p(x_t | z_t).
        arrival: (M + 1, K, M) log p(c | z), the last row that of a sentence's start.
        emission: (V, K) log p(w | z) under the states of w's cluster.
        cluster: (V,) the cluster of each word.

    Returns: () nats.
    """
    M, (N, K) = arrival.shape[2], (tokens.numel(), emission.shape[1])
    text, cluster = on_host(tokens), on_host(cluster)  # what is computed together is found there
    before = torch.cat([text.new_full((len(text), 1), EOS_ID), text[:, :-1]], 1)
    inside = ((before != EOS_ID) | (text != EOS_ID)).flatten().nonzero()[:, 0]
    of = cluster[text.flatten()[inside]]
    order, words = of.argsort(stable=True), cluster.argsort(stable=True)  # by cluster
    many, sizes = of.bincount(minlength=M).tolist(), cluster.bincount(minlength=M).tolist()
    own, others, rows, words = (
        to_device_async(part, tokens.device) for part in (of[order], cluster[words], inside[order], words)
    )

    belief = beliefs[:-1].transpose(0, 1).reshape(N, K)[rows].exp()
    places = source.flatten()[rows, None] * K + torch.arange(K, device=tokens.device)
    clusters = F.embedding_bag(places, arrival.exp().flatten(0, 1), mode="sum", per_sample_weights=belief)
    total = -(taught.clusters[rows] * _log(clusters)).sum()

    filtered = beliefs[1:].transpose(0, 1).reshape(N, K)[rows]
    prior = (filtered - emitted.reshape(N, K)[rows]).softmax(1)  # p(z_t | x_<t, c_t)
    probabilities = emission.exp()[words]
    if tokens.is_cuda:  # all rows with all words: more numbers, but few kernels
        q = taught.within(rows, words).masked_fill(own[:, None] != others, -torch.inf).softmax(1)
        return (total - (q * _log(prior @ probabilities.T)).sum()) / max(1, len(inside))
    parts = zip(rows.split(many), prior.split(many), words.split(sizes), probabilities.split(sizes), strict=True)
    for r, p, w, e in parts:
        if len(r) and len(w) > 1:
            total = total - (taught.within(r, w).softmax(1) * _log(p @ e.T)).sum()
    return total / max(1, len(inside))


def _log(probabilities: Tensor) -> Tensor:
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
