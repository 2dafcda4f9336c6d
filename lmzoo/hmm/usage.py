"""How often a text visits each state of a hidden Markov model."""

from typing import Protocol

import torch
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.corpus.windows import SentenceWindows
from lmzoo.hmm.paths import Chain, posterior
from lmzoo.models.base import State

WINDOW_TOKENS = 512
"""Tokens read at once; a dense model has a transition matrix in memory for each line of them."""


class HiddenMarkovModel(Protocol):
    """What there is to see inside a model with Z states."""

    @property
    def states(self) -> int:
        """Z."""
        ...

    @property
    def device(self) -> torch.device: ...

    def initial_state(self, batch_size: int) -> State: ...

    def __call__(self, tokens: Tensor, state: State) -> tuple[Tensor, State]: ...

    def chain(self, tokens: Tensor, state: State) -> Chain:
        """The tables that a (B, T) window needs."""
        ...

    def words(self, state: int) -> Tensor:
        """(V,) log p(x | z) in nats."""
        ...

    def successors(self, state: int) -> Tensor:
        """(Z,) log p(z_t | z_{t-1}) in nats."""
        ...

    def next_words(self, state: int) -> Tensor:
        """(V,) log p(x_t | z_{t-1}) in nats."""
        ...


@torch.no_grad()
def expected_visits(model: HiddenMarkovModel, tokens: Tensor) -> Tensor:
    """(Z,) Σ_t p(z_t | x) over a (N,) text; every line, closed by `<eos>`, is read from `initial_state`.

    N in all, but for lines that have probability 0, which are left out.
    """
    visits = torch.zeros(model.states, dtype=torch.float64)
    for window in SentenceWindows(tokens, WINDOW_TOKENS, seed=None).epoch(0):
        text = window.tokens.to(model.device)
        inside = torch.ones_like(text, dtype=torch.bool) if window.mask is None else window.mask.to(model.device)
        state = model.initial_state(len(text))
        possible = model(text, state)[0].where(inside, 0.0).sum(1).isfinite()  # (B,)
        chain = model.chain(text, state)
        gamma = posterior(chain, inside.sum(1))
        gamma = gamma.where(possible[:, None, None], 0.0).cpu().double()
        visits.index_add_(0, chain.states[chain.block].flatten().cpu(), gamma.flatten())
    return visits


def first_lines(tokens: Tensor, lines: int) -> Tensor:
    """The first so many lines of a text, or all there are."""
    return tokens[: int((tokens == EOS_ID).nonzero()[:lines][-1]) + 1]


def entropy(counts: Tensor) -> float:
    """Of relative frequencies, in nats."""
    p = counts.double() / counts.sum()
    return float(-torch.xlogy(p, p).sum())
