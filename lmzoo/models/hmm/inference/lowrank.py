"""Transition matrices of low rank: p(j | i) = φ(u_i)·φ(v_j) / φ(u_i)·Σ_k φ(v_k), φ positive.

Chiu, Deng and Rush, "Low-rank constraints for fast inference in structured models", NeurIPS 2021,
https://arxiv.org/abs/2201.02715. With D_r = Σ_k φ_r(v_k), a transition goes from state i to one of f features r, and
from there to state j:

    p(j | i) = Σ_r p(r | i) p(j | r),   p(r | i) = φ_r(u_i) D_r / φ(u_i)·D,   p(j | r) = φ_r(v_j) / D_r.

These are two softmaxes, which cost O(Zf) each. A variant leaves out the weight D_r. Only the requested tiles of the
Z × Z product are ever computed.

Features may come in clusters as states do. Then φ_r(v_j) is 0 unless r and j are in the same cluster, and p(j | r) and
a tile are M times cheaper.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from lmzoo.models.hmm.inference.grouping import by_source
from lmzoo.models.hmm.inference.underflow import accurate_from, add_gradients, log_dot_products, log_product, places
from lmzoo.numerics.gpu_sync import to_device_async
from lmzoo.numerics.precision import at_least_float32, autocast_type


def orthogonal_rows(rows: int, dim: int) -> Tensor:
    """(rows, dim) random vectors, as long as draws from N(0, I/dim); those in a run of dim rows are orthogonal.

    Choromanski et al., "Rethinking attention with Performers", ICLR 2021, §2.4.
    """
    Q, R = torch.linalg.qr(torch.randn(-(-rows // dim), dim, dim))
    Q *= R.diagonal(dim1=1, dim2=2).sign()[:, None]  # else the directions are not uniform (Mezzadri 2007)
    return Q.flatten(0, 1)[:rows] * (torch.randn(rows, dim) * dim**-0.5).norm(dim=1, keepdim=True)


def origin_factor(origin: Tensor, destination: Tensor, *, weighted: bool) -> Tensor:
    """log p(r | i), ``weighted`` by D_r or not.

    Args:
        origin: (…, f) log φ(u).
        destination: (M, S, F) log φ(v), where D_r of the f = MF features is a sum over S states; M = 1 if over all.
    """
    origin = at_least_float32(origin)
    return (origin + at_least_float32(destination).logsumexp(1).flatten() if weighted else origin).log_softmax(-1)


def factors(origin: Tensor, destination: Tensor, *, weighted: bool) -> tuple[Tensor, Tensor]:
    """(M, S, f) log φ(u) and log φ(v) -> (M, S, f) log p(r | i), ``weighted`` by D_r or not, and log p(j | r)."""
    flat = at_least_float32(destination).flatten(0, 1)  # (MS, f)
    return origin_factor(origin, flat[None], weighted=weighted), flat.log_softmax(0).view_as(destination)


def block_factors(origin: Tensor, destination: Tensor, *, weighted: bool) -> tuple[Tensor, Tensor]:
    """The `factors` where features come in M clusters of F.

    Args:
        origin: (M, S, MF) log φ(u).
        destination: (M, S, F) log φ(v) of the states of a cluster, for the features of the same cluster.

    Returns:
        (M, M, S, F) log p(r | i), [c, c′] from the states of cluster c to the features of c′; and (M, F, S)
        log p(j | r).
    """
    M, S, features = destination.shape
    P = origin_factor(origin, destination, weighted=weighted)
    return P.view(M, S, M, features).transpose(1, 2).contiguous(), at_least_float32(destination).log_softmax(1).mT


class _Tiles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, P: Tensor, Q: Tensor, source: Tensor, target: Tensor, dtype: torch.dtype) -> Tensor:
        S, features = P.shape[1:]
        p, q = P.exp(), Q.exp()
        here, target = (to_device_async(clusters, P.device) for clusters in (source, target))
        probs = P.new_empty(len(source), S, S)
        for cluster, pairs in by_source(source):
            product = p[cluster] @ q[target[pairs]].flatten(0, 1).T  # (S, nS)
            probs[pairs] = product.view(S, -1, S).transpose(0, 1)
        tiles = probs.log()
        pair, i, j = places(probs < accurate_from(P.dtype, features))
        ctx.rows = (here[pair], i), (target[pair], j)
        sums = log_dot_products(P, ctx.rows[0], Q, ctx.rows[1])
        tiles[pair, i, j], probs[pair, i, j] = sums, torch.inf
        ctx.save_for_backward(P, Q, source, target, probs, sums)
        ctx.entries, ctx.dtype = (pair, i, j), dtype
        return tiles

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        P, Q, source, target, probs, sums = ctx.saved_tensors
        G = (upstream[0] / probs).to(ctx.dtype)  # (P, S, S)
        p, q = P.exp(), Q.exp()
        dP, dQ = torch.zeros_like(P), torch.zeros_like(Q)
        half_p, half_q = p.to(ctx.dtype), q.to(ctx.dtype)
        for cluster, pairs in by_source(source):
            ahead = target[pairs]
            rows = G[pairs].transpose(0, 1).flatten(1)  # (S, nS)
            dP[cluster] = rows @ half_q[ahead].flatten(0, 1)
            dQ.index_add_(0, ahead, (rows.T @ half_p[cluster]).view(-1, *Q.shape[1:]).to(dQ.dtype))
        dP, dQ = dP.mul_(p), dQ.mul_(q)
        add_gradients(dP, dQ, P, ctx.rows[0], Q, ctx.rows[1], sums, upstream[0][ctx.entries])
        return dP, dQ, None, None, None


def tiles(P: Tensor, Q: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """(P, S, S) log p(j | i) = log Σ_r p(r | i) p(j | r) of the given cluster pairs, as in `transition_tiles`.

    Under autocast only the gradient is in half precision, because rounded p(j | i) do not sum to one.

    Args:
        P, Q: (M, S, f) log p(r | i) and log p(j | r).
        source, target: (P,) int64 clusters, the pairs distinct and ordered by source.
    """
    half = autocast_type(P)
    with torch.autocast(P.device.type, enabled=False):
        return _Tiles.apply(P, Q, source, target, half)


def block_tiles(P: Tensor, Q: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """(P, S, S) `tiles` where features come in clusters; everything is in single precision, under autocast, too.

    Args:
        P, Q: (M, M, S, F) log p(r | i) and (M, F, S) log p(j | r), of `block_factors`.
        source, target: (P,) int64 clusters.
    """
    M, features, S = Q.shape
    source, target = (to_device_async(clusters, Q.device) for clusters in (source, target))
    to_features = F.embedding(source * M + target, P.view(M * M, -1)).view(len(source), S, features)
    from_features = F.embedding(target, Q.flatten(1)).view(len(source), features, S)
    return log_product(to_features, from_features)
