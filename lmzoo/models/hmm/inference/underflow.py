"""Sums of products of probabilities, exact where they underflow: log Σ_k exp(X_k + Y_k).

Such sums are taken in probability space, as matrix products. Where a sum is so small that products which underflow may
have part in it, it is taken again in log space. All tensors hold log-probabilities in nats, at most 0, or -inf.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lmzoo.numerics.gpu_sync import assume, deferred_checks

Index = tuple[Tensor, ...]
"""The numbers of N rows of a tensor, one (N,) tensor for each dimension but the last."""

CHUNK = 2**22
"""How many log-products exist at a time."""


def accurate_from(dtype: torch.dtype, terms: int) -> float:
    """The least sum of ``terms`` products whose rounding error is not larger than without underflow."""
    return terms * torch.finfo(dtype).tiny / torch.finfo(dtype).eps


def places(small: Tensor) -> Index:
    """The numbers of the true elements, which are few, if there are any."""
    if deferred_checks(small.device) is not None and assume(~small.any()):
        return (small.new_empty(0, dtype=torch.int64),) * small.dim()
    return small.nonzero(as_tuple=True)


def _terms(X: Tensor, x: Index, Y: Tensor, y: Index) -> Iterator[tuple[slice, Tensor]]:
    """The (n, K) terms X[x] + Y[y] of a few sums at a time, and which sums these are."""
    size = max(1, CHUNK // X.shape[-1])
    for start in range(0, len(x[0]), size):
        part = slice(start, start + size)
        yield part, X[tuple(i[part] for i in x)] + Y[tuple(i[part] for i in y)]


def log_dot_products(X: Tensor, x: Index, Y: Tensor, y: Index) -> Tensor:
    """(N,) log Σ_k exp(X[x]_k + Y[y]_k), the rows of X (…, K) and Y (…, K) given by number."""
    return torch.cat([X.new_empty(0), *(terms.logsumexp(1) for _, terms in _terms(X, x, Y, y))])


def add_gradients(
    dX: Tensor, dY: Tensor | None, X: Tensor, x: Index, Y: Tensor, y: Index, sums: Tensor, upstream: Tensor
) -> None:
    """Add to dX and dY the gradients of `log_dot_products`, given its result and the (N,) gradients by that."""
    sums = sums.clamp_min(torch.finfo(sums.dtype).min)  # no part of an impossible sum has a gradient
    for part, terms in _terms(X, x, Y, y):
        shares = terms.sub_(sums[part, None]).exp_().mul_(upstream[part, None])
        for gradient, rows in ((dX, x), (dY, y)):
            if gradient is not None:
                gradient.index_put_(tuple(i[part] for i in rows), shares, accumulate=True)


class _LogSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, X: Tensor, Y: Tensor, x: Index, y: Index) -> Tensor:
        sums = log_dot_products(X, x, Y, y)
        ctx.save_for_backward(X, Y, sums)
        ctx.rows = x, y
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        (X, Y, sums), (x, y) = ctx.saved_tensors, ctx.rows
        dX, dY = torch.zeros_like(X), torch.zeros_like(Y)
        add_gradients(dX, dY, X, x, Y, y, sums, upstream[0])
        return dX, dY, None, None


def log_product(X: Tensor, Y: Tensor) -> Tensor:
    """(…, N, K) X and (…, K, M) Y -> (…, N, M) log Σ_k exp(X_nk + Y_km), the logarithm of exp(X) exp(Y).

    It is out of autocast's reach; no gradient flows where it is -inf.
    """
    with torch.autocast(X.device.type, enabled=False):
        product = X.exp() @ Y.exp()
        least = accurate_from(product.dtype, X.shape[-1])
        if product.numel() == 0 or assume(product.detach().amin() >= least):
            return product.log()
        small = product < least
        *batch, row, column = small.nonzero(as_tuple=True)
        sums: Any = _LogSums.apply(X, Y.mT, (*batch, row), (*batch, column))
        return product.masked_fill(small, 1.0).log().masked_scatter(small, sums)


def log_linear(product: Callable[[Tensor], Tensor], x: Tensor, dtype: torch.dtype) -> Tensor:
    """log A exp(x) of each row of (N, K) x, float64, where ``product`` computes A p of rows p in ``dtype``.

    The largest number of each row is factored out. What is smaller than it by more than the range of ``dtype`` is lost.
    """
    peak = x.amax(1, keepdim=True).clamp_min(torch.finfo(x.dtype).min)
    return product((x - peak).exp_().to(dtype)).double().log_().add_(peak)  # in place: rows may be many


def logsumexp_by_label(x: Tensor, labels: Tensor, number: int) -> Tensor:
    """(N, K) x with (N,) labels of 0 to ``number`` - 1 -> (number, K) the logsumexp of the rows of each label."""
    rows = labels[:, None].expand_as(x)
    peak = x.new_full((number, x.shape[1]), -torch.inf).scatter_reduce(0, rows, x, "amax")
    peak = peak.clamp_min(torch.finfo(x.dtype).min)
    return torch.zeros_like(peak).index_add(0, labels, (x - peak[labels]).exp()).log() + peak
