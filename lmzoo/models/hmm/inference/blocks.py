"""The forward recursion of block-sparse hidden Markov models, with its gradient by expected counts.

States come in M clusters of S. A word is emitted by the states of its own cluster alone (Chiu and Rush, "Scaling
Hidden Markov Language Models", EMNLP 2020, https://aclanthology.org/2020.emnlp-main.103). A sentence thus walks from
cluster to cluster, and each step needs one S × S tile of transitions and S emissions. Log-probabilities are in nats.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lmzoo.models.hmm.inference.grouping import group
from lmzoo.models.hmm.inference.precision import least_probability


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
            torch.bmm(message[t][:, None], A[steps[t]], out=predicted[t][:, None])  # Rabiner 1989, eq. 20: the sum
            predicted[t].clamp_min_(least_probability(tiles.dtype))
            score = predicted[t].log().add_(scale).add_(emission[t])  # eq. 20: times the emission
            logprobs[t] = score.logsumexp(1)  # -log c_t of eq. 91
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
        ratio = message.new_zeros(T * B + 1, S)  # the last row is padding
        for t in reversed(range(T)):
            torch.addcmul(dbelief, dlogprobs[:, t, None] - dbelief.sum(1, keepdim=True), filtered[t], out=demission[t])
            step = torch.div(demission[t], predicted[t], out=ratio[t * B : (t + 1) * B])
            dbelief = message[t] * torch.bmm(A[steps[t]], step[:, :, None])[:, :, 0]  # eq. 25
        dtiles = None
        if ctx.needs_input_grad[1]:
            members, label = group(steps.flatten(), 8)  # (R, 8), (R,)
            origin = torch.cat([message.flatten(0, 1), message.new_zeros(1, S)])
            counts = torch.bmm(origin[members].mT, ratio[members])  # (R, S, S), eq. 37 summed over steps
            dtiles = torch.zeros_like(A).index_add_(0, label, counts).mul_(A)
        return dbelief, dtiles, None, demission.transpose(0, 1)


def forward(belief: Tensor, tiles: Tensor, pair: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
    """The forward recursion (Rabiner 1989, eq. 19-21 and 91) over a batch, where z_t is in the block of x_t.

        b_t(j) = log p(z_t = j | x_≤t) = log Σ_i exp(b_{t-1}(i) + A_t(i, j)) + e_t(j) - log p(x_t | x_<t)

    The sum is taken in probability space; the largest number of every tile row and of every message is factored out.
    It is at least `least_probability`, e^-71 in single precision, so nothing is impossible.

    The gradient runs backward over the same tiles. Let λ_t be the gradient with respect to b_t, and g_t the gradient
    with respect to log p(x_t | x_<t). The gradient with respect to e_t is
        δ_t = λ_t + (g_t - Σ_j λ_t(j)) p(z_t | x_≤t),
    the next step back has
        λ_{t-1}(i) = Σ_j p(z_{t-1} = i | z_t = j, x_<t) δ_t(j),
    and the gradient of a tile is the sum of p(z_{t-1} = i | z_t = j, x_<t) δ_t(j) over the steps that use it. Where
    every g_t is 1, these are expected counts (eq. 37).

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
