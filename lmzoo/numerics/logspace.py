"""Sums of products of probabilities as matrix products, for arguments in log space."""

from collections.abc import Callable

import torch
from torch import Tensor


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
