"""The forward recursion of dense hidden Markov models, with its gradient by expected counts.

Rabiner, "A tutorial on hidden Markov models", 1989, https://doi.org/10.1109/5.18626. Every state leads to every state
by one (Z, Z) table, so a step is one matrix product for all rows of a batch. Log-probabilities are in nats.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from lmzoo.models.hmm.inference import blocks
from lmzoo.models.hmm.inference.paths import renormalised
from lmzoo.models.hmm.inference.underflow import accurate_from
from lmzoo.numerics.gpu_sync import assume

RESCALED = 4
"""After how many steps joint probabilities are divided by their sum. Until then 2^31 states cannot make it overflow."""


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, prior: Tensor, transition: Tensor, emission: Tensor) -> tuple[Tensor, Tensor, bool]:
        B, T, Z = emission.shape
        A, score = transition.exp().mul_(Z), emission.transpose(0, 1).clone(memory_format=torch.contiguous_format)
        score[0] += prior  # (T, B, Z), Rabiner 1989, eq. 19
        joint = score.softmax(2)  # (T, B, Z), at first p(x_t | z_t) divided by its sum
        largest = joint.amax(2, keepdim=True)
        offset = score.amax(2, keepdim=True).sub_(largest.mul_(Z).log_())  # log of that sum, less log Z
        predicted, scale = torch.empty_like(joint), A.new_ones(T, B, 1)
        before, after = predicted.unbind(0), joint.unbind(0)
        before[0].fill_(1.0)
        for t in range(1, T):
            torch.mm(after[t - 1], A, out=before[t])  # eq. 20: the sum
            after[t].mul_(before[t])  # eq. 20: times the emission
            if t % RESCALED == 0:
                after[t].div_(torch.sum(after[t], 1, keepdim=True, out=scale[t]))
        total = joint.sum(2, keepdim=True)
        evidence, least = scale.mul_(total), accurate_from(A.dtype, Z)  # (T, B, 1)
        accurate = not B or assume(
            (evidence.amin() >= least) & (predicted.amin() >= least) & (evidence.amax() < torch.inf)
        )
        evidence[1:] /= total[:-1]  # 1 / c_t of eq. 91
        evidence[0] = Z
        logprobs = evidence.log_().add_(offset)
        belief = before[-1].log().add_(score[-1]).log_softmax(1)
        ctx.save_for_backward(A, joint, predicted, total)
        return logprobs[:, :, 0].T, belief, accurate

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        A, joint, predicted, total = ctx.saved_tensors
        T = len(joint)
        g, dbelief = upstream[0].T, upstream[1]  # (T, B), (B, Z)
        even = not g.is_cuda and torch.equal(g[1:], g[:-1])  # all tokens weigh alike; a GPU is not waited for
        # Σ_j λ_{t-1}(j) is Σ_j δ_t(j), which is g_t
        excess = None if even else (g[:-1] - g[1:])[:, :, None] / total[:-1]  # (T - 1, B, 1)
        demission, transposed = torch.empty_like(joint), A.T
        delta, last = demission.unbind(0), (g[-1] - dbelief.sum(1))[:, None] / total[-1]
        torch.addcmul(dbelief, last, joint[-1], out=delta[-1])
        ratio = joint / predicted  # at first joint_t / predicted_t, then δ_t / predicted_t
        after = ratio.unbind(0)
        torch.div(delta[-1], predicted[-1], out=after[-1])
        for t in reversed(range(T - 1)):
            torch.mm(after[t + 1], transposed, out=delta[t])  # eq. 25
            if excess is not None:
                delta[t].add_(excess[t])
            after[t].mul_(delta[t])
        demission[:-1].mul_(joint[:-1])
        counts = torch.empty_like(A)  # (Z, Z), eq. 37 summed over steps
        torch.mm(joint[:-1].flatten(0, 1).T, ratio[1:].flatten(0, 1), out=counts)
        return demission[0], counts.mul_(A), demission.transpose(0, 1)


def forward(prior: Tensor, transition: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
    """The forward recursion (Rabiner 1989, eq. 19-21 and 91) over a batch.

        b_t(j) = log p(z_t = j | x_≤t) = log Σ_i exp(b_{t-1}(i) + A(i, j)) + e_t(j) - log p(x_t | x_<t)

    It runs in probability space, in the precision of its inputs: autocast leaves products that are written with out= as
    they are. A batch in which a sum underflows is left to `blocks.forward`, which tells the equations of the gradient.
    Here that of A is the sum over all steps, one matrix product, and that of the prior is δ_1.

    Args:
        prior: (B, Z) log p(z_1 | past), before the first token.
        transition: (Z, Z) log p(z_t = j | z_{t-1} = i).
        emission: (B, T, Z) log p(x_t | z_t). All three may hold -inf.

    Returns:
        (B, T) log p(x_t | x_<t) and the (B, Z) log-belief after the last token; differentiable as in `blocks.forward`.
    """
    logprobs, belief, accurate = _Scaled.apply(prior, transition, emission)
    if accurate:
        return logprobs, belief
    score = prior + emission[:, 0]
    first = score.logsumexp(1, keepdim=True)
    belief = renormalised(score)
    if emission.shape[1] == 1:
        return first, belief
    pair = torch.zeros(emission.shape[:2], dtype=torch.int64, device=emission.device)
    further, belief = blocks.forward(belief, transition[None], pair[:, 1:], emission[:, 1:])
    return torch.cat([first, further], 1), belief
