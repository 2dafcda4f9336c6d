"""How much a text uses the states of a hidden Markov model."""

import torch
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.corpus.windows import SentenceWindows
from lmzoo.models.hmm.hidden_markov import HiddenMarkovModel
from lmzoo.models.hmm.inference.paths import posterior

WINDOW_TOKENS = 512
"""Tokens read at once; a dense model has a transition matrix in memory for each line of them."""


@torch.no_grad()
def expected_visits(model: HiddenMarkovModel, tokens: Tensor) -> Tensor:
    """(Z,) Σ_t p(z_t | x) over a (N,) text; every line, closed by `<eos>`, is read from `initial_state`.

    N in all, but for lines that have probability 0, which are left out.
    """
    visits = torch.zeros(model.states, dtype=torch.float64)
    for window in SentenceWindows(tokens, WINDOW_TOKENS, seed=None).epoch(0):
        text = window.tokens.to(model.device)
        inside = window.inside.to(model.device)
        state = model.initial_state(len(text))
        possible = model(text, state)[0].where(inside, 0.0).sum(1).isfinite()  # (B,)
        chain = model.chain(text, state)
        gamma, _ = posterior(chain, inside.sum(1))
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
