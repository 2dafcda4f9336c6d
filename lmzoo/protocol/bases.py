"""Base classes of several models: Markov models, and models that compute tables from their parameters."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch
from torch import Tensor

from lmzoo.corpus import EOS_ID
from lmzoo.protocol.model import LanguageModel, State

Tables = TypeVar("Tables")


class WindowModel(LanguageModel):
    """A Markov model of order n: the state is the last n - 1 tokens, `<eos>` standing before a sentence."""

    order: int

    @abstractmethod
    def next_logprobs(self, context: Tensor) -> Tensor:
        """(N, n - 1) contexts, oldest word first -> (N, V) log-probabilities in nats."""

    def token_logprobs(self, context: Tensor, tokens: Tensor) -> Tensor:
        """(N, n - 1) contexts and the (N,) tokens that follow -> (N,) log-probabilities in nats."""
        return self.next_logprobs(context).gather(1, tokens[:, None])[:, 0]

    def initial_state(self, batch_size: int) -> State:
        return (torch.full((batch_size, self.order - 1), EOS_ID, device=self.device),)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        history = torch.cat([state[0], tokens], dim=1)  # (B, n - 1 + T)
        windows = history.unfold(1, self.order, 1)  # (B, T, n)
        context = windows[..., :-1].flatten(0, 1)  # (BT, n - 1)
        logprobs = self.token_logprobs(context, tokens.flatten())
        return logprobs.view(tokens.shape), (history[:, tokens.shape[1] :],)

    def predict(self, state: State) -> Tensor:
        return self.next_logprobs(*state)

    def end_step(self, tokens: Tensor, begun: State) -> State:
        context, *condition = begun
        return torch.cat([context, tokens[:, None]], dim=1)[:, 1:], *condition


class WithTables(LanguageModel, Generic[Tables]):
    """A model that computes tables from its parameters for every window; while it is `frozen`, once."""

    _frozen: Tables | None = None

    @abstractmethod
    def tables(self) -> Tables:
        """The tables of the present parameters."""

    def lasting_tables(self) -> Tables:
        """`tables` with what many windows would otherwise compute again."""
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
