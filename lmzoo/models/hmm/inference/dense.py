"""The forward recursion of dense hidden Markov models, with its gradient by expected counts.

Rabiner, "A tutorial on hidden Markov models", 1989, https://doi.org/10.1109/5.18626. Every state leads to every state,
by one (Z, Z) table. So a step of the recursion is one matrix product for all rows of a batch, and nothing of size
B × Z × Z is ever built. Log-probabilities are in nats.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lmzoo.models.hmm.inference import blocks
from lmzoo.models.hmm.inference.underflow import accurate_from

RESCALED = 4
"""After how many steps joint probabilities are divided by their sum. Until then 2^31 states cannot make it overflow."""


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, prior: Tensor, transition: Tensor, emission: Tensor) -> tuple[Tensor, Tensor, bool]:
        B, T, Z = emission.shape
        A, e = transition.exp().mul_(Z), emission.transpose(0, 1)
        joint = e.softmax(2)  # (T, B, Z), at first p(x_t | z_t) divided by its sum
        offset = e.amax(2, keepdim=True) - joint.amax(2, keepdim=True).mul_(Z).log_()  # log of that sum, less log Z
        score = prior + e[0]  # Rabiner 1989, eq. 19
        torch.softmax(score, 1, out=joint[0])
        predicted, scale = A.new_empty(T - 1, B, Z), A.new_ones(T, B, 1)
        before, after = predicted.unbind(0), joint.unbind(0)
        for t in range(1, T):
            torch.mm(after[t - 1], A, out=before[t - 1])  # eq. 20: the sum
            after[t].mul_(before[t - 1])  # eq. 20: times the emission
            if t % RESCALED == 0:
                after[t].div_(torch.sum(after[t], 1, keepdim=True, out=scale[t]))
        total = joint.sum(2, keepdim=True)
        evidence, least = total * scale, accurate_from(A.dtype, Z)  # (T, B, 1)
        smallest, largest = evidence.aminmax()
        accurate = bool(smallest >= least) and bool(largest < torch.inf)
        evidence[1:] /= total[:-1]  # 1 / c_t of eq. 91
        logprobs = evidence.log_().add_(offset)
        logprobs[0] = score.logsumexp(1, keepdim=True)
        if T > 1:
            accurate = accurate and bool(predicted.amin() >= least)
            score = predicted[-1].log().add_(e[-1])
        ctx.save_for_backward(A, joint, predicted, total)
        return logprobs[:, :, 0].T, score.log_softmax(1), accurate

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        A, joint, predicted, total = ctx.saved_tensors
        T, B, Z = joint.shape
        g, dbelief = upstream[0].T, upstream[1]  # (T, B), (B, Z)
        # Σ_j λ_{t-1}(j) is Σ_j δ_t(j), which is g_t
        excess = (g - torch.cat([g[1:], dbelief.sum(1)[None]]))[:, :, None] / total  # (T, B, 1)
        demission, transposed = A.new_empty(T, B, Z), A.T
        torch.addcmul(dbelief, excess[-1], joint[-1], out=demission[-1])
        uneven = bool(excess[:-1].any())  # not where all tokens weigh alike
        ratio = joint[1:] / predicted  # at first joint_t / predicted_t, then δ_t / predicted_t
        torch.div(demission[-1:], predicted[-1:], out=ratio[-1:])
        delta, after = demission.unbind(0), ratio.unbind(0)
        for t in reversed(range(T - 1)):
            torch.mm(after[t], transposed, out=delta[t])  # eq. 25
            if uneven:
                delta[t].add_(excess[t])
            if t > 0:
                after[t - 1].mul_(delta[t])
        demission[:-1].mul_(joint[:-1])
        counts = torch.mm(joint[:-1].flatten(0, 1).T, ratio.flatten(0, 1))  # (Z, Z), eq. 37 summed over steps
        return demission[0], counts.mul_(A), demission.transpose(0, 1)


def forward(prior: Tensor, transition: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
    """The forward recursion (Rabiner 1989, eq. 19-21 and 91) over a batch.

        b_t(j) = log p(z_t = j | x_≤t) = log Σ_i exp(b_{t-1}(i) + A(i, j)) + e_t(j) - log p(x_t | x_<t)

    It runs in probability space. A batch in which a sum underflows is left to `blocks.forward`.

    The gradient runs backward. Let λ_t be the gradient with respect to b_t, and g_t the gradient with respect to
    log p(x_t | x_<t). The gradient with respect to e_t (and, for t = 1, to the prior) is
        δ_t = λ_t + (g_t - Σ_j λ_t(j)) p(z_t | x_≤t),
    the next step back has
        λ_{t-1}(i) = Σ_j p(z_{t-1} = i | z_t = j, x_<t) δ_t(j),
    and the gradient of A is the sum of p(z_{t-1} = i | z_t = j, x_<t) δ_t(j) over all steps, one matrix product. Where
    every g_t is 1, these are expected counts (eq. 37 and 38).

    Args:
        prior: (B, Z) log p(z_1 | past), before the first token.
        transition: (Z, Z) log p(z_t = j | z_{t-1} = i).
        emission: (B, T, Z) log p(x_t | z_t). All three may hold -inf.

    Returns:
        (B, T) log p(x_t | x_<t) and the (B, Z) log-belief after the last token, both differentiable. A token that is
        impossible has -inf and no gradient, and so has every token after it.
    """
    with torch.autocast(transition.device.type, enabled=False):
        result: Any = _Scaled.apply(prior, transition, emission)
        logprobs, belief, accurate = result
        return (logprobs, belief) if accurate else _in_one_block(prior, transition, emission)


def _in_one_block(prior: Tensor, transition: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
    """The same, with all states as a block that every word is in."""
    score = prior + emission[:, 0]
    first = score.logsumexp(1, keepdim=True)
    belief = score - first.clamp_min(torch.finfo(score.dtype).min)
    if emission.shape[1] == 1:
        return first, belief
    pair = torch.zeros(emission.shape[:2], dtype=torch.int64, device=emission.device)
    further, belief = blocks.forward(belief, transition[None], pair[:, 1:], emission[:, 1:])
    return torch.cat([first, further], 1), belief
