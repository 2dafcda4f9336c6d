"""Transition tiles: log p(j | i) for all states i of one cluster and all states j of another.

A text determines the cluster of every state, because a word is emitted by the states of its own cluster alone (Chiu
and Rush 2020). Of the MS × MS transition matrix it needs only the S × S tiles of clusters that follow each other in it,
and no more is stored. Log-probabilities are in nats.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lmzoo.models.hmm.inference.grouping import by_source
from lmzoo.numerics.gpu_sync import to_device_async
from lmzoo.numerics.precision import at_least_float32, in_autocast_type

CHUNK = {"cpu": 2**21, "cuda": 2**26}
"""How many transition logits exist at a time: enough to keep matrix products busy."""

KEPT = 2**27
"""How many transition probabilities are kept for the backward pass, which computes all others again."""


def _chunk(x: Tensor) -> int:
    """`CHUNK` of a tensor's device."""
    return CHUNK.get(x.device.type, CHUNK["cpu"])


class _TransitionTiles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, U: Tensor, V: Tensor, source: Tensor, target: Tensor) -> Tensor:
        M, S, _ = U.shape
        tiles, kept, room = at_least_float32(U.new_empty(len(source), S, S)), [], KEPT
        target = to_device_async(target, U.device)
        for clusters, local, pairs in _chunks(source, U):
            logits = at_least_float32(U[clusters].flatten(0, 1) @ V.flatten(0, 1).T)  # (cS, MS)
            probs = logits.softmax(1)
            total = logits.amax(1) - probs.amax(1).log()  # (cS,) log Σ_k exp(u_i·v_k)
            cut = logits.view(-1, S, M, S)[local, :, target[pairs]]
            torch.sub(cut, total.view(-1, S, 1)[local], out=tiles[pairs])
            if room > 0:  # all after the first that is not kept are computed again: the last one is smaller
                kept.append(probs)
                room -= probs.numel()
        ctx.save_for_backward(U, V, source, target, *kept)
        return tiles

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (G,) = upstream  # (P, S, S)
        U, V, source, target, *kept = ctx.saved_tensors
        M, S, d = U.shape
        visits = G.new_zeros(M, S).index_add_(0, to_device_async(source, G.device), G.sum(2))
        dU, dV = torch.zeros_like(U), torch.zeros_like(V, dtype=G.dtype)
        for clusters, local, pairs in _chunks(source, U):
            rows = U[clusters].flatten(0, 1)
            probs = kept.pop(0) if kept else at_least_float32(rows @ V.flatten(0, 1).T).softmax(1)  # (cS, MS)
            dlogits = probs * -visits[clusters].view(-1, 1)
            dlogits.view(-1, S, M, S)[local, :, target[pairs]] += G[pairs]  # pairs are distinct
            dlogits = dlogits.to(U.dtype)
            dU[clusters] = (dlogits @ V.flatten(0, 1)).view(-1, S, d)
            dV.flatten(0, 1).add_(dlogits.T @ rows)
        return dU, dV.to(V.dtype), None, None


def _chunks(source: Tensor, U: Tensor) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """The different sources, a few at a time, which of them each pair leaves, and the slice of these pairs."""
    M, S, _ = U.shape
    clusters, counts = source.unique_consecutive(return_counts=True)
    size = max(1, _chunk(U) // (M * S * S))
    start = 0
    for some, count in zip(clusters.split(size), counts.split(size), strict=True):
        stop = start + int(count.sum())
        local = torch.bucketize(source[start:stop], some)
        some, local = (to_device_async(part, U.device) for part in (some, local))
        yield some, local, slice(start, stop)
        start = stop


def transition_tiles(U: Tensor, V: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """log p(j | i) = u_i·v_j - log Σ_k exp(u_i·v_k) of the given cluster pairs; k runs over all MS states.

    The rows of a few clusters are computed at a time, as many as `CHUNK` has room for, and the tiles are cut out of
    them. The backward pass computes those again that are beyond `KEPT`.

    Args:
        U, V: (M, S, d) vectors of the states as origin and as destination.
        source, target: (P,) int64 clusters, the pairs distinct and ordered by source; best on the CPU, where a GPU need
            not be waited for.

    Returns:
        (P, S, S) log-probabilities, [p, i, j] from state i of source[p] to state j of target[p].
    """
    return _TransitionTiles.apply(*in_autocast_type(U, V), source, target)


def normaliser(U: Tensor, V: Tensor) -> Tensor:
    """(M, S) log Σ_k exp(u_i·v_k) of every state i, computed once for many calls of `normalised_tiles`."""
    rows = U.flatten(0, 1).split(max(1, _chunk(U) // U.shape[:2].numel()))
    return torch.cat([at_least_float32(some @ V.flatten(0, 1).T).logsumexp(1) for some in rows]).view(U.shape[:2])


def normalised_tiles(U: Tensor, V: Tensor, total: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """The tiles of `transition_tiles`, given the (M, S) `normaliser`."""
    source, target = (to_device_async(clusters, U.device) for clusters in (source, target))
    return at_least_float32(torch.bmm(U[source], V[target].mT)).sub_(total[source][:, :, None])


class _LocalTiles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, arrival: Tensor, U: Tensor, V: Tensor, source: Tensor, target: Tensor) -> Tensor:
        S = U.shape[1]
        tiles = arrival.new_empty(len(source), S, S)
        for c, targets, pairs in _parts(source, target, U):
            logits = torch.bmm(U[c].expand(len(targets), -1, -1), V.index_select(0, targets).mT)  # (n, S, S)
            torch.log_softmax(logits.to(tiles.dtype), 2, out=tiles[pairs])
            tiles[pairs] += arrival[c, :, targets][:, :, None]
        ctx.save_for_backward(arrival, U, V, source, target, tiles)
        return tiles

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (G,) = upstream  # (P, S, S)
        arrival, U, V, source, target, tiles = ctx.saved_tensors
        visits = G.sum(2)  # (P, S)
        darrival = torch.zeros_like(arrival)
        dU, dV = (torch.zeros_like(vectors, dtype=G.dtype) for vectors in (U, V))
        dlogits = torch.empty_like(tiles[:0] if U.is_cuda else tiles, dtype=U.dtype)
        for c, targets, pairs in _parts(source, target, U):
            n = visits[pairs]
            darrival[c, :, targets] = n
            probs = (tiles[pairs] - arrival[c, :, targets][:, :, None]).exp_()
            part = torch.addcmul(G[pairs], probs, n[:, :, None], value=-1).to(U.dtype)  # (n, S, S)
            destinations = V.index_select(0, targets)
            if U.is_cuda:
                origins = U[c].expand(len(targets), -1, -1)
                dU += _sums(torch.bmm(part, destinations).to(dU.dtype), source[pairs], len(U))
                dV += _sums(torch.bmm(part.mT, origins).to(dV.dtype), target[pairs], len(U))
            else:
                dU[c] = (part.transpose(0, 1).flatten(1) @ destinations.flatten(0, 1)).to(dU.dtype)
                dlogits[pairs] = part
        if not U.is_cuda:
            order = target.argsort(stable=True)
            for c, arriving in by_source(target[order]):
                pairs = order[arriving]
                origins = U.index_select(0, source[pairs]).flatten(0, 1)
                dV[c] = (dlogits.index_select(0, pairs).flatten(0, 1).T @ origins).to(dV.dtype)
        return darrival, dU.to(U.dtype), dV.to(V.dtype), None, None


def _parts(source: Tensor, target: Tensor, U: Tensor) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """The sources and the targets of the pairs that are computed at once, and the slice of these pairs.

    On a CPU they have one source, (1,), whose vectors are not copied. A GPU takes as many as `CHUNK` has room for.
    """
    if U.is_cuda:
        size = max(1, _chunk(U) // U.shape[1] ** 2)
        sources, targets = (to_device_async(part, U.device) for part in (source, target))
        for start in range(0, len(source), size):
            pairs = slice(start, min(start + size, len(source)))
            yield sources[pairs], targets[pairs], pairs
    else:
        for c, pairs in by_source(source):
            yield torch.tensor([c]), target[pairs], pairs


def _sums(x: Tensor, labels: Tensor, M: int) -> Tensor:
    """(M, …) the sum of the (n, …) x of each label, by no atomic additions, whose order differs from run to run."""
    order, lengths = (to_device_async(part, x.device) for part in (labels.argsort(), labels.bincount(minlength=M)))
    return torch.segment_reduce(x[order], "sum", lengths=lengths, axis=0, unsafe=True)


def local_tiles(arrival: Tensor, U: Tensor, V: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """log p(j | i) = log p(c | i) + u_i·v_j - log Σ_k exp(u_i·v_k), k over the S states of j's cluster c alone.

    Args:
        arrival: (M, S, M) log p(c | i).
        U, V, source, target: as in `transition_tiles`.

    Returns:
        (P, S, S) log-probabilities.
    """
    return _LocalTiles.apply(arrival, *in_autocast_type(U, V), source, target)
