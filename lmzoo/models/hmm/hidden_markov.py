"""What all hidden Markov models of the zoo are, and how often a text visits their states."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import Tensor

from lmzoo.models.hmm.inference.paths import Chain
from lmzoo.protocol.model import LanguageModel, State

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
        """The tables that a (B, T) window needs, for what `lmzoo.models.hmm.inference.paths` has to tell."""

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
