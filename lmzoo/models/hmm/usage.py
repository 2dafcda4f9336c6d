"""How often a text is expected to visit each state of a hidden Markov model."""

import torch
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.corpus.windows import SentenceWindows
from lmzoo.models.hmm.hidden_markov import HiddenMarkovModel
from lmzoo.models.hmm.inference.paths import posterior
from lmzoo.numerics.waiting import sent

WINDOW_TOKENS = 512
"""How many tokens are read at once: a dense model has a transition matrix in memory for each of their lines."""


@torch.no_grad()
def expected_visits(model: HiddenMarkovModel, tokens: Tensor) -> Tensor:
    """(Z,) Σ_t p(z_t | x) over a (N,) text, each line of which, closed by `<eos>`, begins with `initial_state`.

    Lines of probability 0 are left out. Without such lines the visits sum to N.
    """
    visits = torch.zeros(model.states, dtype=torch.float64)
    for window in SentenceWindows(tokens, WINDOW_TOKENS, seed=None).epoch(0):
        text = sent(window.tokens, model.device)
        inside = sent(window.inside, model.device)
        state = model.initial_state(len(text))
        possible = model(text, state)[0].where(inside, 0.0).sum(1).isfinite()  # (B,)
        chain = model.chain(text, state)
        gamma, _ = posterior(chain, inside.sum(1))
        gamma = gamma.where(possible[:, None, None], 0.0).cpu().double()
        visits.index_add_(0, chain.states[chain.block].flatten().cpu(), gamma.flatten())
    return visits


def first_lines(tokens: Tensor, lines: int) -> Tensor:
    """The first ``lines`` lines of a (N,) text, or all where it has fewer."""
    return tokens[: int((tokens == EOS_ID).nonzero()[:lines][-1]) + 1]


def entropy(counts: Tensor) -> float:
    """The entropy of relative frequencies, in nats."""
    p = counts.double() / counts.sum()
    return float(-torch.xlogy(p, p).sum())
