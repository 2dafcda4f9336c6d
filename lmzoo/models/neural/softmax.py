"""The log-softmax of an affine map: scores of the given tokens alone, in chunks, with their gradient."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from lmzoo.numerics.gpu_sync import deferred_checks
from lmzoo.numerics.sparse import grouped

CHUNK_ELEMENTS = 1 << 23
"""How many logits exist at once."""


def token_logprobs(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    tokens: Tensor,
    word_class: Tensor | None = None,
    *,
    alike: bool = True,
) -> Tensor:
    """log p(x | h) in nats: softmax(W h + b)_x over all words, or over the words of x's class alone.

    The (N, V) logits never exist together: they are computed a chunk of rows at a time. Where most tokens have one
    weight in the loss, the forward pass computes the gradient of Σ log p as well. The backward pass multiplies it by
    the median weight, and computes the logits again of tokens with another one, such as masked ones.

    Args:
        hidden: (N, d) h.
        weight, bias: (V, d) W and (V,) b.
        tokens: (N,) int64 x.
        word_class: (V,) int64 class of every word; None for one softmax over all words.
        alike: whether most tokens have one weight in the loss. If not, all logits are computed again.

    Returns: (N,), float32 or the type of ``hidden`` where that has more bits.
    """
    if torch.is_grad_enabled():
        return _TokenLogprobs.apply(hidden, weight, bias, tokens, word_class, alike and len(tokens) > 0)
    return _score(hidden, weight, bias, tokens, word_class, None)[0]


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, word_class: Tensor | None, alike: bool
    ) -> Tensor:
        expected = torch.ones(len(tokens), device=tokens.device) if alike else None
        ctx.trust = deferred_checks(tokens.device) if alike else None
        if ctx.trust is not None and ctx.trust.inside is not None and len(ctx.trust.inside) == len(tokens):
            expected = ctx.trust.inside.to(torch.float32)
        logprobs, gradients = _score(hidden, weight, bias, tokens, word_class, expected)
        ctx.save_for_backward(hidden, weight, bias, tokens, word_class, expected, *gradients)
        return logprobs

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        g = upstream[0]
        hidden, weight, bias, tokens, word_class, expected, *gradients = ctx.saved_tensors
        if not gradients:
            return *_score(hidden, weight, bias, tokens, word_class, g)[1], None, None, None
        common = g.median() if ctx.trust is None else g.where(expected > 0, torch.inf).amin()
        to_hidden, to_weight, to_bias = (part * common.to(part.dtype) for part in gradients)
        if ctx.trust is not None:
            ctx.trust.facts.append((g == common * expected).all())
            return to_hidden, to_weight, to_bias, None, None, None
        unlike = (g != common).nonzero()[:, 0]
        if len(unlike):
            more = _score(hidden[unlike], weight, bias, tokens[unlike], word_class, g[unlike] - common)[1]
            to_hidden.index_add_(0, unlike, more[0])
            to_weight += more[1]
            to_bias += more[2]
        return to_hidden, to_weight, to_bias, None, None, None


def _score(
    hidden: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, word_class: Tensor | None, g: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """`token_logprobs`, and the gradient of Σ_n g_n log p(x_n | h_n) by h, W and b; none where the (N,) g are None."""
    if word_class is None or tokens.is_cuda:  # how many tokens a class has, a GPU would have to be waited for
        return _score_blocks(hidden, weight, bias, tokens, [(len(hidden), None)], g, word_class)
    words, sizes, place = grouped(word_class)
    rows, counts, _ = grouped(word_class[tokens], len(sizes))
    blocks = zip(counts.tolist(), words.split(sizes.tolist()), strict=True)
    hidden, tokens, g = hidden.index_select(0, rows), tokens[rows], None if g is None else g[rows]
    logprobs, gradients = _score_blocks(hidden, weight, bias, place[tokens], blocks, g)
    of_row = rows.argsort()
    return logprobs[of_row], [part.index_select(0, of_row) for part in gradients[:1]] + gradients[1:]


def _score_blocks(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    tokens: Tensor,
    blocks: Iterable[tuple[int, Tensor | None]],
    g: Tensor | None,
    word_class: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """`_score` in blocks: the first n tokens are among (m,) words, None for all, and so on; x are places among them.

    In a block of all words, those of other classes than the token's are impossible where there are classes.
    """
    whole = torch.promote_types(hidden.dtype, torch.float32)
    chosen, largest = hidden.new_zeros(2, len(hidden), 1, dtype=whole)
    total = torch.ones_like(chosen)
    to_hidden, to_weight, to_bias = (
        torch.zeros_like(part, dtype=whole) if g is not None else part for part in (hidden, weight, bias)
    )
    for n, words in _chunks(blocks, len(weight)):
        h, x = hidden[n], tokens[n, None]
        W, b = (part if words is None else part.index_select(0, words) for part in (weight, bias))
        scores = torch.addmm(b, h, W.T).to(whole)  # (rows, words)
        if word_class is not None:
            scores.masked_fill_(word_class != word_class[x], -torch.inf)
        torch.gather(scores, 1, x, out=chosen[n])
        torch.amax(scores, 1, keepdim=True, out=largest[n])
        odds = scores.sub_(largest[n]).exp_()
        torch.sum(odds, 1, keepdim=True, out=total[n])
        if g is not None:  # -d log p(x) / d logit(v) = p(v) - [v = x], where p(v) = odds(v) / total
            push = odds.scatter_add_(1, x, -total[n]).to(h.dtype)
            weighed = (-g[n, None] / total[n]).to(h.dtype)
            to_hidden[n] = (push @ W) * weighed
            for sums, part in ((to_weight, push.T @ (h * weighed)), (to_bias, (push.T @ weighed)[:, 0])):
                sums.add_(part) if words is None else sums.index_add_(0, words, part.to(whole))
    logprobs = (chosen - largest - total.log())[:, 0]
    if g is None:
        return logprobs, []
    return logprobs, [to_hidden.to(hidden.dtype), to_weight.to(weight.dtype), to_bias.to(bias.dtype)]


def _chunks(blocks: Iterable[tuple[int, Tensor | None]], vocabulary_size: int) -> Iterator[tuple[slice, Tensor | None]]:
    """The tokens and the words of each block, in parts that keep the logits few; one word is certain, and left out."""
    token = 0
    for n, words in blocks:
        m = vocabulary_size if words is None else len(words)
        rows = max(1, CHUNK_ELEMENTS // max(1, m))
        if m > 1:
            for start in range(token, token + n, rows):
                yield slice(start, min(start + rows, token + n)), words
        token += n
