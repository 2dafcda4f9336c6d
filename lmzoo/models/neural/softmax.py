"""The log-softmax of an affine map: scores of the given tokens alone, in chunks, with their gradient."""

from typing import Any

import torch
from torch import Tensor

CHUNK_ELEMENTS = 1 << 22
"""How many logits exist at once."""


def token_logprobs(
    hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, word_class: Tensor | None = None
) -> Tensor:
    """log p(x | h) in nats: softmax(W h + b)_x over all words, or over the words of x's class alone.

    The (N, V) logits never exist together: they are computed a chunk of rows at a time. The forward pass computes the
    gradient of Σ log p as well. The backward pass multiplies it by the median weight of the tokens, which is right
    for every token of that weight. It computes the logits again of tokens with another weight, such as masked ones.

    Args:
        hidden: (N, d) h.
        weight, bias: (V, d) W and (V,) b.
        tokens: (N,) int64 x.
        word_class: (V,) int64 class of every word; None for one softmax over all words.

    Returns: (N,), float32 or the type of ``hidden`` where that has more bits.
    """
    if torch.is_grad_enabled():
        return _TokenLogprobs.apply(hidden, weight, bias, tokens, word_class)
    return _score(hidden, weight, bias, tokens, word_class, None)[0]


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, word_class: Tensor | None
    ) -> Tensor:
        ones = torch.ones(len(tokens), device=tokens.device)
        logprobs, gradients = _score(hidden, weight, bias, tokens, word_class, ones)
        ctx.save_for_backward(hidden, weight, bias, tokens, word_class, *gradients)
        return logprobs

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        g = upstream[0]
        hidden, weight, bias, tokens, word_class, *gradients = ctx.saved_tensors
        common = g.median()
        to_hidden, to_weight, to_bias = (part * common.to(part.dtype) for part in gradients)
        others = (g != common).nonzero()[:, 0]
        if len(others):
            more = _score(hidden[others], weight, bias, tokens[others], word_class, g[others] - common)[1]
            to_hidden.index_add_(0, others, more[0])
            to_weight += more[1]
            to_bias += more[2]
        return to_hidden, to_weight, to_bias, None, None


def _score(
    hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, word_class: Tensor | None, g: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """`token_logprobs`, and the gradient of Σ_n g_n log p(x_n | h_n) with respect to h, W and b.

    There is no gradient, an empty list, where the (N,) weights ``g`` are None.
    """
    if word_class is None:
        return _score_over_all_words(hidden, weight, bias, tokens, g)
    return _score_within_classes(hidden, weight, bias, tokens, word_class, g)


def _score_over_all_words(
    hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, g: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    rows = max(1, CHUNK_ELEMENTS // len(weight))
    whole = torch.promote_types(hidden.dtype, torch.float32)
    logprobs = hidden.new_empty(len(hidden), dtype=whole)
    gradients = []
    if g is not None:
        sums = (torch.zeros_like(part, dtype=whole) for part in (weight, bias))
        gradients = [torch.empty_like(hidden), *sums]
    for start in range(0, len(hidden), rows):
        chunk = slice(start, start + rows)
        h, x = hidden[chunk], tokens[chunk, None]
        scores = torch.addmm(bias, h, weight.T).to(whole).log_softmax(1)  # (rows, V)
        logprobs[chunk] = scores.gather(1, x)[:, 0]
        if g is not None:  # -d log p(x) / d logit(v) = p(v) - [v = x]
            push = scores.exp_().scatter_add_(1, x, -torch.ones_like(x, dtype=whole)).to(h.dtype)
            weighed = -g[chunk, None].to(h.dtype)
            to_hidden, to_weight, to_bias = gradients
            to_hidden[chunk] = (push @ weight) * weighed
            to_weight += push.T @ (h * weighed)
            to_bias += (push.T @ weighed)[:, 0]
    return logprobs, [total.to(part.dtype) for total, part in zip(gradients, (hidden, weight, bias), strict=False)]


def _score_within_classes(
    hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, word_class: Tensor, g: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    words, sizes, place = _grouped(word_class)
    rows, counts, _ = _grouped(word_class[tokens], len(sizes))
    logprobs = hidden.new_zeros(len(hidden), dtype=torch.promote_types(hidden.dtype, torch.float32))
    gradients = [] if g is None else [torch.zeros_like(part) for part in (hidden, weight, bias)]
    for r, w in zip(rows.split(counts.tolist()), words.split(sizes.tolist()), strict=True):
        if len(r) == 0 or len(w) == 1:  # no token is of this class, or its only word is certain
            continue
        weights = None if g is None else g[r]
        logprobs[r], found = _score_over_all_words(hidden[r], weight[w], bias[w], place[tokens[r]], weights)
        for gradient, part, where in zip(gradients, found, (r, w, w), strict=False):
            gradient[where] = part
    return logprobs, gradients


def _grouped(group: Tensor, groups: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """(N,) group of each thing -> the things group by group, the groups' sizes, and each thing's place in its group."""
    order = group.argsort(stable=True)
    sizes = group.bincount(minlength=groups)
    return order, sizes, order.argsort() - (sizes.cumsum(0) - sizes)[group]
