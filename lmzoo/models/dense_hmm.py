"""What the HMMs share in which every state may lead to every state and say every word (Rabiner 1989)."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lmzoo.hmm import dense
from lmzoo.hmm.paths import Chain
from lmzoo.models.base import LanguageModel, State


class Tables(NamedTuple):
    """The distributions over K states, in nats."""

    kept: Tensor
    """(K,) int64 which of the model's states they are."""
    start: Tensor
    """(K,) log p(z_1)."""
    transition: Tensor
    """(K, K) log p(z_t | z_{t-1})."""
    emission: Tensor
    """(V, K) log p(x | z)."""


class DenseHMM(LanguageModel):
    """p(x) = Σ_z Π_t p(z_t | z_{t-1}) p(x_t | z_t), Z states, each with a distribution over all states and all words.

    The state is the (B, Z) log-belief over the state of the last token, and (B,) whether there was a last token.
    """

    def __init__(self, *, vocabulary_size: int, states: int):
        super().__init__()
        self.vocabulary_size, self.states = vocabulary_size, states
        self._frozen: Tables | None = None

    @abstractmethod
    def tables(self) -> Tables:
        """The distributions as the parameters have them."""

    def initial_state(self, batch_size: int) -> State:
        number = next(iter(self.state_dict().values()))
        return number.new_zeros(batch_size, self.states), number.new_zeros(batch_size, dtype=torch.bool)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        tables = self._frozen or self.tables()
        emission = F.embedding(tokens, tables.emission)  # (B, T, K)
        logprobs, belief = dense.forward(self._prior(tables, state), tables.transition, emission)
        whole = belief.new_full((len(tokens), self.states), -torch.inf).index_copy(1, tables.kept, belief)
        return logprobs, (whole, torch.ones_like(state[1]))

    def predict(self, state: State) -> Tensor:
        tables = self._frozen or self.tables()
        return dense.advance(self._prior(tables, state), tables.emission.T)

    def chain(self, tokens: Tensor, state: State) -> Chain:
        """The tables of a (B, T) window for what `lmzoo.hmm.paths` has to tell; time and memory are O(BZ²)."""
        tables = self._frozen or self.tables()
        pair = torch.zeros_like(tokens)
        pair[:, 0] = ~state[1]  # the second tile starts
        tiles = torch.stack([tables.transition, tables.start.expand_as(tables.transition)])
        belief = self._restrict(tables, state)
        return Chain(
            belief, tiles, pair, F.embedding(tokens, tables.emission), torch.zeros_like(tokens), tables.kept[None]
        )

    def words(self, state: int) -> Tensor:
        """(V,) log p(x | z)."""
        return (self._frozen or self.tables()).emission[:, state]

    def successors(self, state: int) -> Tensor:
        """(Z,) log p(z_t | z_{t-1})."""
        return (self._frozen or self.tables()).transition[state]

    def next_words(self, state: int) -> Tensor:
        """(V,) log p(x_t | z_{t-1})."""
        return dense.advance(self.successors(state)[None], (self._frozen or self.tables()).emission.T)[0]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        with torch.no_grad():
            self._frozen = self.tables()
        try:
            yield
        finally:
            self._frozen = None

    def _prior(self, tables: Tables, state: State) -> Tensor:
        """(B, K) log p(z | past) of the next token's state."""
        start = tables.start.expand(len(state[1]), -1)
        if not bool(state[1].any()):
            return start
        with torch.autocast(self.device.type, enabled=False):  # rounded, it would not sum to one
            going_on = dense.advance(self._restrict(tables, state), tables.transition)
        return torch.where(state[1][:, None], going_on, start)

    def _restrict(self, tables: Tables, state: State) -> Tensor:
        """The (B, K) belief given that the state is a kept one; uniform where it cannot be."""
        belief = state[0][:, tables.kept]
        lost = belief.isneginf().all(1, keepdim=True)
        return belief.masked_fill(lost, 0.0).log_softmax(1)
