"""The forward recursion of dense hidden Markov models, with its gradient by expected counts.

Rabiner, "A tutorial on hidden Markov models", 1989, https://doi.org/10.1109/5.18626. Every state leads to every state,
by one (Z, Z) table. So a step of the recursion is one matrix product for all rows of a batch, and nothing of size
B × Z × Z is ever built. Log-probabilities are in nats.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def probabilities(logprobs: Tensor) -> Tensor:
    """exp(``logprobs``), at least √tiny so that rounding makes no path impossible; but -inf becomes 0."""
    least = 0.5 * math.log(torch.finfo(logprobs.dtype).tiny)
    return logprobs.clamp_min(least).masked_fill_(logprobs.isneginf(), -torch.inf).exp_()


def advance(belief: Tensor, transition: Tensor) -> Tensor:
    """log Σ_i exp(b(i) + A(i, j)): the distribution of the next state, or, with emissions for A, of the next word.

    Args:
        belief: (B, Z) log p(z_t = i | past); -inf is allowed.
        transition: (Z, N) log p(j | i); -inf is allowed.

    Returns:
        (B, N) log p(j | past). No gradient flows where it is -inf.
    """
    with torch.autocast(transition.device.type, enabled=False):  # rounded probabilities do not sum to one
        p = belief.exp() @ probabilities(transition)
    impossible = p == 0
    return p.masked_fill(impossible, 1.0).log().masked_fill(impossible, -torch.inf)


class _Forward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, prior: Tensor, transition: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
        B, T, Z = emission.shape
        A = probabilities(transition)
        predicted, filtered, peak = emission.new_empty(T - 1, B, Z), emission.new_empty(T, B, Z), A.new_empty(T, B)
        before, after, e = predicted.unbind(0), filtered.unbind(0), emission.unbind(1)
        score = prior + e[0]  # Rabiner 1989, eq. 19
        for t in range(T):
            if t > 0:
                torch.mm(after[t - 1], A, out=before[t - 1])  # eq. 20: the sum
                torch.log(before[t - 1], out=score).add_(e[t])  # eq. 20: times the emission
            torch.amax(score, 1, out=peak[t])
            torch.softmax(score, 1, out=after[t])
        logprobs = peak - filtered.amax(2).log()  # -log c_t of eq. 91: the normaliser, seen at the largest score
        impossible = peak.isneginf().cumsum(0) > 0  # (T, B)
        filtered.masked_fill_(impossible[:, :, None], 0.0)
        predicted.masked_fill_(impossible[1:, :, None], 0.0).clamp_min_(torch.finfo(A.dtype).tiny)
        ctx.save_for_backward(A, predicted, filtered, impossible)
        belief = score.log_softmax(1).masked_fill_(impossible[-1, :, None], -torch.inf)
        return logprobs.masked_fill_(impossible, -torch.inf).T, belief

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *upstream: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        A, predicted, filtered, impossible = ctx.saved_tensors
        T, B, Z = filtered.shape
        g = upstream[0].T.masked_fill(impossible, 0.0)  # (T, B)
        dbelief = upstream[1].masked_fill(impossible[-1, :, None], 0.0)  # (B, Z)
        # Σ_j λ_{t-1}(j) is Σ_j δ_t(j), which is g_t
        excess = (g - torch.cat([g[1:], dbelief.sum(1)[None]]))[:, :, None]  # (T, B, 1)
        demission, ratio = A.new_empty(B, T, Z), torch.empty_like(predicted)
        delta, quotient, before, after = demission.unbind(1), ratio.unbind(0), predicted.unbind(0), filtered.unbind(0)
        for t in reversed(range(T)):
            torch.addcmul(dbelief, excess[t], after[t], out=delta[t])
            if t > 0:
                torch.div(delta[t], before[t - 1], out=quotient[t - 1])
                dbelief = torch.mm(quotient[t - 1], A.T).mul_(after[t - 1])  # eq. 25
        counts = torch.mm(filtered[:-1].flatten(0, 1).T, ratio.flatten(0, 1))  # (Z, Z), eq. 37 summed over steps
        return demission[:, 0], counts.mul_(A), demission


def forward(prior: Tensor, transition: Tensor, emission: Tensor) -> tuple[Tensor, Tensor]:
    """The forward recursion (Rabiner 1989, eq. 19-21 and 91) over a batch.

        b_t(j) = log p(z_t = j | x_≤t) = log Σ_i exp(b_{t-1}(i) + A(i, j)) + e_t(j) - log p(x_t | x_<t)

    The sum is taken in probability space, the rest in log space.

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
        impossible has -inf and no gradient, and so has every token after it. In single precision a token counts as
        impossible, too, where the states that allow it are less than e^-100 as likely as the rest.
    """
    with torch.autocast(transition.device.type, enabled=False):
        result: Any = _Forward.apply(prior, transition, emission)
    return result
