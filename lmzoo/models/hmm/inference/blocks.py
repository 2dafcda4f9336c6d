"""Exact inference in block-sparse hidden Markov models: pure functions, gradients by expected counts.

States come in M clusters of S; a word is emitted by the S states of its own cluster alone (Chiu and
Rush, "Scaling Hidden Markov Language Models", EMNLP 2020, https://aclanthology.org/2020.emnlp-main.103).
A sentence thus walks from cluster to cluster, and of the transition matrix A (MS × MS) only the S × S
tiles of cluster pairs that follow each other are ever looked at. Nothing of size MS × MS or MS × V
is stored; log-probabilities are in nats.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = {"cpu": 2**21, "cuda": 2**26}
"""Transition logits that exist at a time where a cluster's rows are fewer: enough to keep matrix products busy."""


def single(x: Tensor) -> Tensor:
    """In single precision at least, in which sums of probabilities are taken."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def least(dtype: torch.dtype) -> float:
    """What stands for a probability of 0, by which a gradient can be divided."""
    return torch.finfo(dtype).tiny / torch.finfo(dtype).eps


def chunk(x: Tensor) -> int:
    """How many logits exist at a time where a tensor is."""
    return CHUNK.get(x.device.type, CHUNK["cpu"])


def group(labels: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Deal the items of each label into rows of equal length, so that ragged groups batch well.

    Args:
        labels: (N,) int64, the group of each item.
        size: the row length.

    Returns:
        (R, size) item numbers, filled up with N, and the (R,) label of each row. Rows are ordered by
        label; a label without items has none.
    """
    order = labels.argsort(stable=True)
    values, counts = labels[order].unique_consecutive(return_counts=True)
    rows = (counts + size - 1).div(size, rounding_mode="floor")  # of each label
    rank = torch.arange(len(labels), device=labels.device) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    place = ((rows.cumsum(0) - rows) * size).repeat_interleave(counts) + rank
    members = labels.new_full((int(rows.sum()) * size,), len(labels))
    members[place] = order
    return members.view(-1, size), values.repeat_interleave(rows)


def emission_table(H: Tensor, W: Tensor, bias: Tensor, cluster: Tensor) -> Tensor:
    """log p(x | z) for every word x and the states z of its cluster: log-softmax of h_z·w_x + b_x over that cluster.

    Clusters of similar size, within a factor of two, share a batched product.

    Args:
        H: (M, S, d) state vectors, W: (V, d) word vectors, bias: (V,).
        cluster: (V,) int64, the cluster of each word.

    Returns:
        (V, S), nats.
    """
    (V, d), S = W.shape, H.shape[1]
    members, label = group(cluster, int(cluster.bincount().max()))  # a row for each cluster that has words
    sizes = (members < V).sum(1)
    octave = (2 * sizes - 1).log2().floor()  # ⌈log₂ size⌉
    rows = [(octave == value).nonzero()[:, 0] for value in octave.unique()]
    shapes = [(len(some), int(sizes[some].max())) for some in rows]
    words = torch.cat([members[some, :width].flatten() for some, (_, width) in zip(rows, shapes, strict=True)])
    counts = [number * width for number, width in shapes]
    vectors = F.embedding(words.clamp_max(V - 1), W).to(H.dtype).split(counts)
    offsets = torch.cat([bias, bias.new_full((1,), -torch.inf)])[words].to(H.dtype).split(counts)  # no word: impossible
    states = F.embedding(label[torch.cat(rows)], H.flatten(1)).view(-1, S, d).split([len(some) for some in rows])
    tables = [
        single(torch.baddbmm(b.view(*shape, 1), w.view(*shape, d), h.mT)).log_softmax(1).flatten(0, 1)  # (n · width, S)
        for b, w, h, shape in zip(offsets, vectors, states, shapes, strict=True)
    ]
    present = (words < V).nonzero()[:, 0]
    slot = torch.empty_like(cluster).scatter(0, words[present], present)
    return F.embedding(slot, torch.cat(tables))  # (V, S)


def within_cluster(logits: Tensor, cluster: Tensor) -> Tensor:
    """(V, S) logits of words under the states of their clusters -> log p(x | z), a log-softmax over each cluster."""
    V, S = logits.shape
    members, _ = group(cluster, int(cluster.bincount().max()))  # a row for each cluster that has words
    padded = torch.cat([logits, logits.new_full((1, S), -torch.inf)])[members]
    place = members.new_empty(V + 1).scatter(0, members.flatten(), torch.arange(members.numel(), device=cluster.device))
    return padded.log_softmax(1).flatten(0, 1)[place[:V]]


def _in_autocast_dtype(*vectors: Tensor) -> list[Tensor]:
    """In autocast's type where it is on, as it does not reach into the backward pass of a function of ours."""
    device = vectors[0].device.type
    if not torch.is_autocast_enabled(device):
        return list(vectors)
    return [x.to(torch.get_autocast_dtype(device)) for x in vectors]


def departures(source: Tensor) -> Iterator[tuple[int, slice]]:
    """The distinct ones of (P,) ascending sources, each with the slice of pairs that leave it."""
    clusters, counts = source.unique_consecutive(return_counts=True)
    start = 0
    for cluster, count in zip(clusters.tolist(), counts.tolist(), strict=True):
        yield cluster, slice(start, start + count)
        start += count


class _TransitionTiles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, U: Tensor, V: Tensor, source: Tensor, target: Tensor) -> Tensor:
        M, S, _ = U.shape
        tiles = single(U.new_empty(len(source), S, S))
        for clusters, pairs in _chunks(source, M, S):
            logprobs = single(U[clusters].flatten(0, 1) @ V.flatten(0, 1).T).log_softmax(1)  # (cS, MS)
            local = torch.bucketize(source[pairs], clusters)
            tiles[pairs] = logprobs.view(-1, S, M, S)[local, :, target[pairs]]
        ctx.save_for_backward(U, V, source, target)
        return tiles

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (G,) = upstream  # (P, S, S)
        U, V, source, target = ctx.saved_tensors
        M, S, d = U.shape
        visits = G.new_zeros(M, S).index_add_(0, source, G.sum(2))
        dU, dV = torch.zeros_like(U), torch.zeros_like(V, dtype=G.dtype)
        for clusters, pairs in _chunks(source, M, S):
            rows = U[clusters].flatten(0, 1)
            probs = single(rows @ V.flatten(0, 1).T).softmax(1)  # (cS, MS)
            dlogits = probs.mul_(-visits[clusters].view(-1, 1))
            local = torch.bucketize(source[pairs], clusters)
            dlogits.view(-1, S, M, S)[local, :, target[pairs]] += G[pairs]  # each pair is there once
            dlogits = dlogits.to(U.dtype)
            dU[clusters] = (dlogits @ V.flatten(0, 1)).view(-1, S, d)
            dV.flatten(0, 1).add_(dlogits.T @ rows)
        return dU, dV.to(V.dtype), None, None


def _chunks(source: Tensor, M: int, S: int) -> Iterator[tuple[Tensor, slice]]:
    """The distinct sources, a few at a time, each with the slice of pairs that leave them."""
    clusters, counts = source.unique_consecutive(return_counts=True)
    size = max(1, chunk(source) // (M * S * S))
    start = 0
    for some, count in zip(clusters.split(size), counts.split(size), strict=True):
        stop = start + int(count.sum())
        yield some, slice(start, stop)
        start = stop


def transition_tiles(U: Tensor, V: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """log A[i, j] = u_i·v_j - log Σ_k exp(u_i·v_k), for all states i, j of the cluster pairs asked for.

    The normaliser is summed in row chunks, out of which the tiles are cut, and again in the backward
    pass: beside tiles and vectors, memory is that of one cluster's rows, S × MS, or of as many as `chunk` has room
    for; rows of clusters that no pair leaves are not visited.

    Args:
        U, V: (M, S, d) vectors of the states as origin and as destination.
        source, target: (P,) int64 clusters, the pairs distinct and ordered by source.

    Returns:
        (P, S, S) log-probabilities, [p, i, j] from state i of source[p] to state j of target[p].
    """
    tiles: Any = _TransitionTiles.apply(*_in_autocast_dtype(U, V), source, target)
    return tiles


def normaliser(U: Tensor, V: Tensor) -> Tensor:
    """(M, S) log Σ_k exp(u_i·v_k) of every state i, without gradient's memory: for tables that are kept."""
    rows = U.flatten(0, 1).split(max(1, chunk(U) // U.shape[:2].numel()))
    return torch.cat([single(some @ V.flatten(0, 1).T).logsumexp(1) for some in rows]).view(U.shape[:2])


def normalised_tiles(U: Tensor, V: Tensor, total: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """What `transition_tiles` returns, from the `normaliser`."""
    return single(torch.bmm(U[source], V[target].mT)).sub_(total[source][:, :, None])


class _LocalTiles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, arrival: Tensor, U: Tensor, V: Tensor, source: Tensor, target: Tensor) -> Tensor:
        S = U.shape[1]
        tiles = arrival.new_empty(len(source), S, S)
        for c, pairs in departures(source):
            out, targets = tiles[pairs], target[pairs]
            logits = (U[c] @ V[targets].flatten(0, 1).T).view(S, -1, S)  # from i to j of the n-th target
            torch.log_softmax(logits.transpose(0, 1).to(out.dtype), 2, out=out)
            out += arrival[c, :, targets].T[:, :, None]
        ctx.save_for_backward(arrival, U, V, source, target, tiles)
        return tiles

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (G,) = upstream  # (P, S, S)
        arrival, U, V, source, target, tiles = ctx.saved_tensors
        S, d = U.shape[1:]
        visits = G.sum(2)  # (P, S)
        darrival, dU, dV = torch.zeros_like(arrival), torch.zeros_like(U), torch.zeros_like(V, dtype=G.dtype)
        for c, pairs in departures(source):
            n, targets = visits[pairs], target[pairs]
            darrival[c, :, targets] = n.T
            probs = (tiles[pairs] - arrival[c, :, targets].T[:, :, None]).exp_()
            dlogits = torch.addcmul(G[pairs], probs, n[:, :, None], value=-1).to(U.dtype)  # (n, S, S)
            flat = dlogits.transpose(0, 1).flatten(1)  # (S, nS)
            dU[c] = flat @ V[targets].flatten(0, 1)
            dV.index_add_(0, targets, (flat.T @ U[c]).view(-1, S, d).to(dV.dtype))
        return darrival, dU, dV.to(V.dtype), None, None


def local_tiles(arrival: Tensor, U: Tensor, V: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """log p(c | i) + u_i·v_j - log Σ_{k in c} exp(u_i·v_k), for the states j of cluster c alone.

    Args:
        arrival: (M, S, M) log p(c | i).
        U, V: (M, S, d) vectors of the states as origin and as destination.
        source, target: (P,) int64 clusters, the pairs distinct and ordered by source.

    Returns:
        (P, S, S) log-probabilities, [p, i, j] from state i of source[p] to state j of target[p].
    """
    tiles: Any = _LocalTiles.apply(arrival, *_in_autocast_dtype(U, V), source, target)
    return tiles


class _Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, belief: Tensor, tiles: Tensor, pair: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
        B, T, S = emission.shape
        peak = tiles.amax(2)  # (P, S)
        A = (tiles - peak[:, :, None]).exp_()  # each row's largest is 1
        steps = pair.T.contiguous()  # (T, B)
        peak, emission = peak[steps], emission.transpose(0, 1)  # (T, B, S)
        message, predicted, filtered = (tiles.new_empty(T, B, S) for _ in range(3))
        logprobs = tiles.new_empty(T, B)
        for t in range(T):
            score = belief + peak[t]
            scale = score.amax(1, keepdim=True)
            message[t] = (score - scale).exp_()
            torch.bmm(message[t][:, None], A[steps[t]], out=predicted[t][:, None])
            predicted[t].clamp_min_(least(tiles.dtype))
            score = predicted[t].log().add_(scale).add_(emission[t])
            logprobs[t] = score.logsumexp(1)
            belief = score - logprobs[t][:, None]
            torch.exp(belief, out=filtered[t])
        ctx.save_for_backward(A, steps, message, predicted, filtered)
        return logprobs.T, belief

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        dlogprobs, dbelief = upstream  # (B, T), (B, S)
        A, steps, message, predicted, filtered = ctx.saved_tensors
        T, B, S = message.shape
        demission = torch.empty_like(message)
        ratio = message.new_zeros(T * B + 1, S)  # the last row stands for no token
        for t in reversed(range(T)):
            torch.addcmul(dbelief, dlogprobs[:, t, None] - dbelief.sum(1, keepdim=True), filtered[t], out=demission[t])
            step = torch.div(demission[t], predicted[t], out=ratio[t * B : (t + 1) * B])
            dbelief = message[t] * torch.bmm(A[steps[t]], step[:, :, None])[:, :, 0]
        dtiles = None
        if ctx.needs_input_grad[1]:
            members, label = group(steps.flatten(), 8)  # (R, 8), (R,)
            origin = torch.cat([message.flatten(0, 1), message.new_zeros(1, S)])
            counts = torch.bmm(origin[members].mT, ratio[members])  # (R, S, S)
            dtiles = torch.zeros_like(A).index_add_(0, label, counts).mul_(A)
        return dbelief, dtiles, None, demission.transpose(0, 1)


def forward(belief: Tensor, tiles: Tensor, pair: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
    """The forward recursion (Rabiner 1989, eq. 19-21) over a batch of state blocks.

    b_t(j) = log p(z_t = j | x_≤t) = log Σ_i exp(b_{t-1}(i) + A_t(i, j)) + e_t(j) - log p(x_t | x_<t). The sum runs in
    probability space, with the largest of every tile row and of every message factored out, and is at least
    `least`, e^-71 in single precision, so that nothing is impossible. The
    gradient runs backward over the same tiles: with λ_t the gradient with respect to b_t and g_t that
    with respect to log p(x_t | x_<t),
        δ_t = λ_t + (g_t - Σ_j λ_t(j)) p(z_t | x_≤t)    (emissions),
        λ_{t-1}(i) = Σ_j p(z_{t-1} = i | z_t = j, x_<t) δ_t(j),
    and a tile gathers p(z_{t-1} = i | z_t = j, x_<t) δ_t(j) over its uses: expected counts where every g_t is 1.

    Args:
        belief: (B, S) log p(z_0 | past) before the first token; -inf is allowed where some state is finite.
        tiles: (P, S, S) log transition probabilities, finite.
        pair: (B, T) int64, the tile of each step.
        emission: (B, T, S) log p(x_t | z_t), finite.

    Returns:
        (B, T) log p(x_t | x_<t) and the (B, S) log-belief after the last token, both differentiable.
    """
    with torch.autocast(tiles.device.type, enabled=False):
        result: Any = _Forward.apply(belief, tiles, pair, emission)
    return result
