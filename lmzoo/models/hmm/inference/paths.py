"""What the states of a hidden Markov model were: the likeliest path, posteriors, and paths drawn from them.

Rabiner, "A tutorial on hidden Markov models", 1989, https://doi.org/10.1109/5.18626. All functions read a `Chain`,
the part of a model that a text touches; a model with one dense table has a single tile.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.models.hmm.inference import blocks


class Chain(NamedTuple):
    """What a model says of B texts, T tokens each: the arguments of `blocks.forward`, and the states' names."""

    belief: Tensor
    """(B, S) log p(z_0 | past) before the first token."""
    tiles: Tensor
    """(P, S, S) log p(z_t | z_{t-1})."""
    pair: Tensor
    """(B, T) the tile of each step."""
    emission: Tensor
    """(B, T, S) log p(x_t | z_t)."""
    block: Tensor
    """(B, T) int64 the row of `states` that z_t is in."""
    states: Tensor
    """(M, S) int64 the model's numbers of the states."""

    def step(self, t: int) -> Tensor:
        """(B, S, S) log p(z_t, x_t | z_{t-1})."""
        return self.tiles[self.pair[:, t]] + self.emission[:, t, None, :]


@torch.no_grad()
def viterbi(chain: Chain, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """The likeliest path (Rabiner 1989, eq. 32-35).

    Args:
        chain: B texts.
        lengths: (B,) int64 tokens of each; what comes after is padding.

    Returns:
        (B, T) states z that maximise p(z, x | past), with no meaning on padding, and (B,) the log of it in nats.
    """
    score = (chain.belief[:, :, None] + chain.step(0)).logsumexp(1)  # z_0 belongs to the past
    stay, origins = torch.arange(score.shape[1], device=score.device), []
    for t in range(1, chain.pair.shape[1]):
        best, origin = (score[:, :, None] + chain.step(t)).max(1)  # (B, S)
        inside = (t < lengths)[:, None]
        score = torch.where(inside, best, score)
        origins.append(torch.where(inside, origin, stay))
    logprob, last = score.max(1)
    path = [last]
    for origin in reversed(origins):
        path.append(origin.gather(1, path[-1][:, None])[:, 0])
    return _named(chain, torch.stack(path[::-1], 1)), logprob


@torch.enable_grad()
def posterior(chain: Chain, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T, S) p(z_t | past, x) given all tokens of each text, 0 on padding, and (B,) log p(x | past) in nats.

    As log p(x) = log Σ_z Π_t p(z_t | z_{t-1}) exp(e_t(z_t)), this is its gradient with respect to the e_t, which
    `blocks.forward` finds by the backward recursion (Rabiner 1989, eq. 25-27). `lengths` are those of `viterbi`.
    """
    emission = chain.emission.detach().requires_grad_()
    logprobs, _ = blocks.forward(chain.belief.detach(), chain.tiles.detach(), chain.pair, emission)
    inside = torch.arange(logprobs.shape[1], device=lengths.device) < lengths[:, None]
    (gamma,) = torch.autograd.grad(logprobs[inside].sum(), emission)
    return gamma, logprobs.detach().where(inside, 0.0).sum(1)


@torch.no_grad()
def sample(chain: Chain, lengths: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """(B, T) states drawn from p(z | past, x), the last first; `lengths` as in `viterbi`."""
    belief, beliefs = chain.belief, []
    row = torch.arange(len(belief), device=belief.device)
    for t in range(chain.pair.shape[1]):
        _, belief = blocks.forward(belief, chain.tiles[chain.pair[:, t]], row[:, None], chain.emission[:, t : t + 1])
        beliefs.append(belief)
    state, path = row, []
    for t in reversed(range(len(beliefs))):
        weights = beliefs[t]
        if path:
            arrow = chain.tiles[chain.pair[:, t + 1]][row, :, state]  # (B, S) into the state drawn
            weights = torch.where((t + 1 < lengths)[:, None], weights + arrow, weights)
        state = torch.multinomial(weights.softmax(1), 1, generator=generator)[:, 0]
        path.append(state)
    return _named(chain, torch.stack(path[::-1], 1))


def _named(chain: Chain, path: Tensor) -> Tensor:
    """The (B, T) numbers of the states at (B, T) places in their blocks."""
    return chain.states[chain.block, path]
