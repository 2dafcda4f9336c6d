"""The output layer of the neural models: log-softmax of an affine map, of the given tokens alone."""

from typing import Any

import torch
from torch import Tensor

CHUNK_ELEMENTS = 1 << 22
"""How many logits exist at once."""


def token_logprobs(hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor) -> Tensor:
    """log p(x | h) = (W h + b)_x - log Σ_v exp (W h + b)_v in nats, (N,) float32 at least.

    Of the (N, V) logits only a chunk of rows exists at any time. The gradient of the sum of the result is
    taken along with it, so backward only scales it where every token weighs the same, as in a mean; it computes
    the logits again of tokens that weigh more or less than most, such as those masked.

    Under autocast products are taken in its type, sums in float32.

    Args:
        hidden: (N, d).
        weight: (V, d), W.
        bias: (V,), b.
        tokens: (N,) int64, x.
    """
    device = hidden.device.type
    if torch.is_autocast_enabled(device):
        half = torch.get_autocast_dtype(device)
        hidden, weight, bias = hidden.to(half), weight.to(half), bias.to(half)
    if torch.is_grad_enabled():
        return _TokenLogprobs.apply(hidden, weight, bias, tokens)
    return _logprobs(hidden, weight, bias, tokens, None)[0]


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor) -> Tensor:
        ones = torch.ones(len(tokens), device=tokens.device)
        logprobs, gradients = _logprobs(hidden, weight, bias, tokens, ones)
        ctx.save_for_backward(hidden, weight, bias, tokens, *gradients)
        return logprobs

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        g = upstream[0]
        hidden, weight, bias, tokens, *gradients = ctx.saved_tensors
        common = g.median()
        to_hidden, to_weight, to_bias = (part * common.to(part.dtype) for part in gradients)
        others = (g != common).nonzero()[:, 0]
        if len(others):
            more = _logprobs(hidden[others], weight, bias, tokens[others], g[others] - common)[1]
            to_hidden.index_add_(0, others, more[0])
            to_weight += more[1]
            to_bias += more[2]
        return to_hidden, to_weight, to_bias, None


def _logprobs(
    hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, g: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """log p(x | h), (N,), and where weights g of the tokens are given, the gradient of Σ g log p."""
    rows = max(1, CHUNK_ELEMENTS // len(weight))
    whole = torch.promote_types(hidden.dtype, torch.float32)
    logprobs = hidden.new_empty(len(hidden), dtype=whole)
    to_hidden = torch.empty_like(hidden if g is not None else hidden[:0])
    to_weight, to_bias = (torch.zeros_like(part if g is not None else part[:0], dtype=whole) for part in (weight, bias))
    for start in range(0, len(hidden), rows):
        chunk = slice(start, start + rows)
        h, x = hidden[chunk], tokens[chunk, None]
        scores = torch.addmm(bias, h, weight.T).to(whole).log_softmax(1)  # (rows, V)
        logprobs[chunk] = scores.gather(1, x)[:, 0]
        if g is not None:  # -d log p(x) / d logit(v) = p(v) - [v = x]
            push = scores.exp_().scatter_add_(1, x, -torch.ones_like(x, dtype=whole)).to(h.dtype)
            weighed = -g[chunk, None].to(h.dtype)
            to_hidden[chunk] = (push @ weight) * weighed
            to_weight += push.T @ (h * weighed)
            to_bias += (push.T @ weighed)[:, 0]
    return logprobs, [to_hidden, to_weight.to(weight.dtype), to_bias.to(bias.dtype)]
