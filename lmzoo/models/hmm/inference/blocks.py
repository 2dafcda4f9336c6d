"""The forward recursion of block-sparse hidden Markov models, with its gradient by expected counts.

States come in M clusters of S, and a word is emitted by the states of its own cluster alone (Chiu and Rush 2020). A
sentence walks from cluster to cluster, so a step needs one S × S tile of transitions and S emissions, in nats.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from lmzoo.models.hmm.inference.grouping import group
from lmzoo.models.hmm.inference.underflow import accurate_from, add_gradients, log_dot_products
from lmzoo.numerics.gpu_sync import assume, to_device_async


def _ahead(message: Tensor, A: Tensor, p: Tensor) -> Tensor:
    """(B, S) Σ_i m_b(i) A[p_b](i, j)."""
    if len(A) == 1:
        return message @ A[0]
    S = A.shape[1]
    rows = p[:, None] * S + torch.arange(S, device=p.device)
    return F.embedding_bag(rows, A.flatten(0, 1), mode="sum", per_sample_weights=message)  # without a copy of A[p]


def _back(ratio: Tensor, A: Tensor, p: Tensor) -> Tensor:
    """(B, S) Σ_j A[p_b](i, j) r_b(j)."""
    if len(A) == 1:
        return ratio @ A[0].T
    return A.index_select(0, p).mul_(ratio[:, None]).sum(2)


class _Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, belief: Tensor, tiles: Tensor, pair: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
        B, T, S = emission.shape
        least, lowest = accurate_from(tiles.dtype, S), torch.finfo(tiles.dtype).min
        peak = tiles.amax(2).clamp_min_(lowest)  # (P, S)
        A = (tiles - peak[:, :, None]).exp_()  # each row's largest is 1
        steps = to_device_async(pair.T.contiguous(), tiles.device)  # (T, B)
        beliefs, message, predicted = (tiles.new_empty(n, B, S) for n in (T + 1, T, T))
        logprobs, mended = tiles.new_empty(T, B, 1), []
        beliefs[0] = belief
        for mend in (False, True) if tiles.is_cuda else (True,):  # a GPU would have to be waited for at every step
            for t, p in enumerate(steps):
                score = beliefs[t] + peak[p]
                scale = score.amax(1, keepdim=True).clamp_min_(lowest)
                torch.sub(score, scale, out=message[t]).exp_()
                predicted[t] = _ahead(message[t], A, p)  # Rabiner 1989, eq. 20: the sum
                score = predicted[t].log().add_(scale)
                if mend and len(places := (predicted[t] < least).nonzero()):
                    b, j = places.unbind(1)
                    sums = log_dot_products(beliefs[t], (b,), tiles.mT, (p[b], j))
                    predicted[t][b, j], score[b, j] = torch.inf, sums  # of these, `ratio` is 0 in the backward pass
                    mended.append((t, b, j, sums))
                score.add_(emission[:, t])  # eq. 20: times the emission
                torch.logsumexp(score, 1, keepdim=True, out=logprobs[t])  # -log c_t of eq. 91
                torch.sub(score, logprobs[t].clamp_min(lowest), out=beliefs[t + 1])
                beliefs[t + 1].masked_fill_(logprobs[t].isneginf(), -math.log(S))  # as `renormalised` has it
            if not mend and assume(predicted.amin() >= least):
                break
        ctx.save_for_backward(A, steps, message, predicted, beliefs, tiles if mended else None)
        ctx.mended, ctx.pair, ctx.impossible = mended, pair, logprobs.isneginf()
        return logprobs[:, :, 0].T, beliefs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        dlogprobs, dbeliefs = upstream  # (B, T), (T + 1, B, S)
        A, steps, message, predicted, beliefs, tiles = ctx.saved_tensors
        T, B, S = message.shape
        mended = {t: sums for t, *sums in ctx.mended}
        dmended = torch.zeros_like(A) if mended and ctx.needs_input_grad[1] else None
        demission, filtered = torch.empty_like(message), beliefs[1:].exp()
        ratio = message.new_zeros(T * B + 1, S)  # the last row is padding
        dbelief = dbeliefs[T]
        for t in reversed(range(T)):
            torch.addcmul(dbelief, dlogprobs[:, t, None] - dbelief.sum(1, keepdim=True), filtered[t], out=demission[t])
            demission[t].masked_fill_(ctx.impossible[t], 0.0)
            step = torch.div(demission[t], predicted[t], out=ratio[t * B : (t + 1) * B])
            dbelief = _back(step, A, steps[t]).mul_(message[t]).add_(dbeliefs[t])  # eq. 25
            if t in mended:
                b, j, sums = mended[t]
                columns = tiles.mT, (steps[t][b], j)
                dcolumns = None if dmended is None else dmended.mT
                add_gradients(dbelief, dcolumns, beliefs[t], (b,), *columns, sums, demission[t][b, j])
        dtiles = None
        if ctx.needs_input_grad[1]:
            rows = group(ctx.pair.T.flatten(), max(8, T * B // len(A)))
            members, label = (to_device_async(part, A.device) for part in rows)  # (R, n), (R,)
            origin = torch.cat([message.flatten(0, 1), message.new_zeros(1, S)])
            counts = torch.bmm(origin[members].mT, ratio[members])  # (R, S, S), eq. 37 summed over steps
            dtiles = torch.zeros_like(A).index_add_(0, label, counts).mul_(A)
            if dmended is not None:
                dtiles += dmended
        return dbelief, dtiles, None, demission.transpose(0, 1)


def forward(belief: Tensor, tiles: Tensor, pair: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
    """The forward recursion (Rabiner 1989, eq. 19-21 and 91) over a batch, where z_t is in the block of x_t.

        b_t(j) = log p(z_t = j | x_≤t) = log Σ_i exp(b_{t-1}(i) + A_t(i, j)) + e_t(j) - log p(x_t | x_<t)

    The sum is taken in probability space; the largest number of every tile row and of every message is factored out.
    Where it underflows nevertheless, it is taken in log space.

    The gradient runs backward over the same tiles. Let λ_t and g_t be the gradients with respect to b_t and to
    log p(x_t | x_<t). The gradient with respect to e_t is
        δ_t = λ_t + (g_t - Σ_j λ_t(j)) p(z_t | x_≤t),
    the next step back has
        λ_{t-1}(i) = Σ_j p(z_{t-1} = i | z_t = j, x_<t) δ_t(j),
    and the gradient of a tile is the sum of p(z_{t-1} = i | z_t = j, x_<t) δ_t(j) over the steps that use it. Where
    every g_t is 1, these are expected counts (eq. 37).

    Args:
        belief: (B, S) log p(z_0 | past) before the first token.
        tiles: (P, S, S) log transition probabilities.
        pair: (B, T) int64, the tile of each step; best on the CPU, where a GPU need not be waited for.
        emission: (B, T, S) log p(x_t | z_t). All but the pairs may hold -inf.

    Returns:
        (B, T) log p(x_t | x_<t) and the (B, S) log-belief after the last token, both differentiable. A token that is
        impossible has -inf and no gradient, and the belief after it is uniform.
    """
    logprobs, beliefs = forward_pass(belief, tiles, pair, emission)
    return logprobs, beliefs[-1]


def forward_pass(belief: Tensor, tiles: Tensor, pair: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
    """`forward` with the log-beliefs of all steps, (T + 1, B, S); the first is the one before the window."""
    with torch.autocast(tiles.device.type, enabled=False):
        return _Forward.apply(belief, tiles, pair, emission)
