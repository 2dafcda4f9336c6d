"""What the HMMs share in which every state may lead to every state and say every word (Rabiner 1989)."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lmzoo.models.hmm.hidden_markov import HiddenMarkovModel, renormalised
from lmzoo.models.hmm.inference import dense
from lmzoo.models.hmm.inference.paths import Chain
from lmzoo.protocol.model import State


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


class DenseHMM(HiddenMarkovModel[Tables]):
    """An HMM with Z states, each with a distribution over all states and all words.

    The state is the (B, Z) log-belief over the state of the last token, and (B,) whether there was a last token.
    """

    def __init__(self, *, vocabulary_size: int, states: int):
        super().__init__()
        self.vocabulary_size, self.states = vocabulary_size, states

    def initial_state(self, batch_size: int) -> State:
        number = next(iter(self.state_dict().values()))
        return number.new_zeros(batch_size, self.states), number.new_zeros(batch_size, dtype=torch.bool)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        tables = self.current()
        emission = F.embedding(tokens, tables.emission)  # (B, T, K)
        logprobs, belief = dense.forward(self._prior(tables, state), tables.transition, emission)
        whole = belief.new_full((len(tokens), self.states), -torch.inf).index_copy(1, tables.kept, belief)
        return logprobs, (whole, torch.ones_like(state[1]))

    def predict(self, state: State) -> Tensor:
        tables = self.current()
        return dense.advance(self._prior(tables, state), tables.emission.T)

    def chain(self, tokens: Tensor, state: State) -> Chain:
        """The tables of a (B, T) window. What is made of them takes O(BTZ²) time and O(BZ²) memory."""
        tables = self.current()
        pair = torch.zeros_like(tokens)
        pair[:, 0] = ~state[1]  # the second tile starts
        tiles = torch.stack([tables.transition, tables.start.expand_as(tables.transition)])
        belief = self._restrict(tables, state)
        return Chain(
            belief, tiles, pair, F.embedding(tokens, tables.emission), torch.zeros_like(tokens), tables.kept[None]
        )

    def words(self, state: int) -> Tensor:
        return self.current().emission[:, state]

    def successors(self, state: int) -> Tensor:
        return self.current().transition[state]

    def next_words(self, state: int) -> Tensor:
        return dense.advance(self.successors(state)[None], self.current().emission.T)[0]

    def _prior(self, tables: Tables, state: State) -> Tensor:
        """(B, K) log p(z | past) of the next token's state."""
        start = tables.start.expand(len(state[1]), -1)
        if not bool(state[1].any()):
            return start
        going_on = dense.advance(self._restrict(tables, state), tables.transition)
        return torch.where(state[1][:, None], going_on, start)

    def _restrict(self, tables: Tables, state: State) -> Tensor:
        """The (B, K) belief given that the state is a kept one; uniform where it cannot be."""
        return renormalised(state[0][:, tables.kept])
