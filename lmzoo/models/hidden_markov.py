"""What all hidden Markov models of the zoo are, and how often a text visits their states."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.corpus.windows import SentenceWindows
from lmzoo.hmm.paths import Chain, posterior
from lmzoo.models.base import LanguageModel, State

WINDOW_TOKENS = 512
"""Tokens read at once; a dense model has a transition matrix in memory for each line of them."""

Tables = TypeVar("Tables")


class HiddenMarkovModel(LanguageModel, Generic[Tables]):
    """p(x) = Σ_z Π_t p(z_t | z_{t-1}) p(x_t | z_t), z_t one of Z states, distributions made anew for every window.

    What there is to see inside, `chain`, `words`, `successors` and `next_words`, is meant for evaluation mode: in
    training some states may be left out.
    """

    states: int
    """Z."""

    def __init__(self) -> None:
        super().__init__()
        self._frozen: Tables | None = None

    @abstractmethod
    def tables(self) -> Tables:
        """The distributions as the parameters have them, in training over a new draw of states."""

    def lasting_tables(self) -> Tables:
        """The same, made ready for many windows."""
        return self.tables()

    def current(self) -> Tables:
        """The frozen tables, or new ones."""
        return self.tables() if self._frozen is None else self._frozen

    @contextmanager
    def frozen(self) -> Iterator[None]:
        before = self._frozen
        if before is None:
            with torch.no_grad():
                self._frozen = self.lasting_tables()
        try:
            yield
        finally:
            self._frozen = before

    @abstractmethod
    def chain(self, tokens: Tensor, state: State) -> Chain:
        """The tables that a (B, T) window needs, for what `lmzoo.hmm.paths` has to tell."""

    @abstractmethod
    def words(self, state: int) -> Tensor:
        """(V,) log p(x | z) in nats."""

    @abstractmethod
    def successors(self, state: int) -> Tensor:
        """(Z,) log p(z_t | z_{t-1}) in nats."""

    @abstractmethod
    def next_words(self, state: int) -> Tensor:
        """(V,) log p(x_t | z_{t-1}) in nats."""


def renormalised(belief: Tensor) -> Tensor:
    """(B, K) log-beliefs over states of which some may have gone; uniform where nothing is left."""
    lost = belief.isneginf().all(1, keepdim=True)
    return belief.masked_fill(lost, 0.0).log_softmax(1)


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
