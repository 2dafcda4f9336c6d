"""Which states a text went through: the likeliest path, and posteriors.

Rabiner, "A tutorial on hidden Markov models", 1989, https://doi.org/10.1109/5.18626. All functions read a `Chain`,
the part of a model that a text needs.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.models.hmm.inference import blocks


class Chain(NamedTuple):
    """What B texts of T tokens need of a model: the arguments of `blocks.forward`, and the numbers of the states.

    Each text walks through blocks of S states. A place is a position in a block, 0 to S - 1. An example with two blocks
    of S = 2 states, for one text of T = 3 tokens::

        block     0     1     1         row of `states` at each step
        pair      0     1     2         tile of each step: into block 0, from block 0 to block 1, within block 1
        states    [[0, 1], [2, 3]]      place 1 of block 1 is state 3

    A dense model has a single block, all of its states.
    """

    belief: Tensor
    """(B, S) log p(z_0 | past) before the first token."""
    tiles: Tensor
    """(P, S, S) log p(z_t | z_{t-1})."""
    pair: Tensor
    """(B, T) int64 the tile of each step, on the CPU where it is computed there."""
    emission: Tensor
    """(B, T, S) log p(x_t | z_t)."""
    block: Tensor
    """(B, T) int64 the row of `states` that z_t lies in."""
    states: Tensor
    """(M, S) int64 the number that each state has in the model."""

    def step(self, t: int) -> Tensor:
        """(B, S, S) log p(z_t, x_t | z_{t-1})."""
        return self.tiles[self.pair[:, t]] + self.emission[:, t, None, :]


def renormalised(belief: Tensor) -> Tensor:
    """(B, K) log-beliefs, normalised again after some hidden states were left out; uniform where every one is -inf."""
    lost = belief.isneginf().all(1, keepdim=True)
    return belief.masked_fill(lost, 0.0).log_softmax(1)


@torch.no_grad()
def viterbi(chain: Chain, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The likeliest path (Rabiner 1989, eq. 32-35).

    Args:
        lengths: (B,) int64, the number of tokens of each text; later tokens are padding.

    Returns:
        (B, T) the states z that maximise p(z, x | past), without meaning on padding; (B,) log p(z, x | past) in nats.
    """
    score = (chain.belief[:, :, None] + chain.step(0)).logsumexp(1)  # eq. 32; z_0 is no part of the path
    stay, origins = torch.arange(score.shape[1], device=score.device), []
    for t in range(1, chain.pair.shape[1]):
        best, origin = (score[:, :, None] + chain.step(t)).max(1)  # (B, S), eq. 33
        inside = (t < lengths)[:, None]
        score = torch.where(inside, best, score)
        origins.append(torch.where(inside, origin, stay))
    logprob, last = score.max(1)  # eq. 34
    path = [last]
    for origin in reversed(origins):
        path.append(origin.gather(1, path[-1][:, None])[:, 0])  # eq. 35
    return chain.states[chain.block, torch.stack(path[::-1], 1)], logprob


@torch.enable_grad()
def posterior(chain: Chain, lengths: Tensor) -> Tensor:
    """(B, T, S) p(z_t | past, x), given all tokens of each text; 0 on padding (Rabiner 1989, eq. 25-27).

    It is the gradient of log p(x) = log Σ_z Π_t p(z_t | z_{t-1}) exp(e_t(z_t)) with respect to the e_t, which
    `blocks.forward` computes by the backward recursion; ``lengths`` as in `viterbi`.
    """
    emission = chain.emission.detach().requires_grad_()
    logprobs, _ = blocks.forward(chain.belief.detach(), chain.tiles.detach(), chain.pair, emission)
    inside = torch.arange(logprobs.shape[1], device=lengths.device) < lengths[:, None]
    (gamma,) = torch.autograd.grad(logprobs[inside].sum(), emission)  # eq. 27
    return gamma.clamp_min_(0)  # rounding leaves less where later words rule a state out
