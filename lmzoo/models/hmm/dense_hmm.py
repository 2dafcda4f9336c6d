"""The base class of dense HMMs: every hidden state may lead to every state and emit every word (Rabiner 1989)."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lmzoo.models.hmm.inference import dense
from lmzoo.models.hmm.inference.chains import DenseChain
from lmzoo.models.hmm.inference.paths import Chain, renormalised
from lmzoo.models.hmm.inference.underflow import log_product
from lmzoo.models.hmm.reading import state_posteriors, states_of_words
from lmzoo.protocol.abilities import HiddenChain
from lmzoo.protocol.model import LanguageModel, State


class DenseTables(NamedTuple):
    """The distributions over the K hidden states that state dropout leaves active, in nats."""

    active: Tensor
    """(K,) int64 the active states."""
    start: Tensor
    """(K,) log p(z_1)."""
    transition: Tensor
    """(K, K) log p(z_t | z_{t-1})."""
    emission: Tensor
    """(V, K) log p(x | z)."""


def over_words(scores: Tensor) -> Tensor:
    """(V, K) scores -> log p(x | z). PyTorch's log_softmax over rows is off by 1e-4 in float32 where V is 2,000."""
    return scores - scores.logsumexp(0)


class DenseHMM(LanguageModel):
    """An HMM with Z hidden states, each with a distribution over all states and over all words.

    The protocol's state is the (B, Z) log-belief over the last token's hidden state, and (B,) whether there was a last
    token.
    """

    def __init__(self, vocabulary_size: int, states: int):
        super().__init__()
        self.vocabulary_size, self.states = vocabulary_size, states

    def initial_state(self, batch_size: int) -> State:
        number = next(iter(self.state_dict().values()))
        return number.new_zeros(batch_size, self.states), number.new_zeros(batch_size, dtype=torch.bool)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        tables = self.current_tables()
        emission = F.embedding(tokens, tables.emission)  # (B, T, K)
        logprobs, belief = dense.forward(self._prior(tables, state), tables.transition, emission)
        whole = belief.new_full((len(tokens), self.states), -torch.inf).index_copy(1, tables.active, belief)
        return logprobs, (whole, torch.ones_like(state[1]))

    def predict(self, state: State) -> Tensor:
        tables = self.current_tables()
        return log_product(self._prior(tables, state), tables.emission.T)

    def chain(self, tokens: Tensor, state: State) -> Chain:
        """What a (B, T) window needs, with all states as a single block.

        Tile 0 holds the transitions. Every row of tile 1 is the start distribution, so the belief before it is without
        effect. The functions of `lmzoo.models.hmm.inference.paths` then take O(BTZ²) time and O(BZ²) memory.
        """
        tables = self.current_tables()
        pair = torch.zeros_like(tokens)
        pair[:, 0] = ~state[1]
        tiles = torch.stack([tables.transition, tables.start.expand_as(tables.transition)])
        emission = F.embedding(tokens, tables.emission)
        block, states = torch.zeros_like(tokens), tables.active[None]
        return Chain(self._active_belief(tables, state), tiles, pair, emission, block, states)

    def words(self, z: int) -> Tensor:
        """(V,) log p(x_t | z_t = z) in nats."""
        return self.current_tables().emission[:, z]

    def successors(self, z: int) -> Tensor:
        """(Z,) log p(z_t | z_{t-1} = z) in nats."""
        return self.current_tables().transition[z]

    def next_words(self, z: int) -> Tensor:
        """(V,) log p(x_t | z_{t-1} = z) in nats."""
        return log_product(self.successors(z)[None], self.current_tables().emission.T)[0]

    def hidden_chain(self) -> HiddenChain:
        """See `lmzoo.protocol.abilities.HasChain`."""
        return DenseChain(self.current_tables())

    embed = state_posteriors

    def word_vectors(self) -> Mapping[str, Tensor]:
        return {"states": states_of_words(self)}

    def _prior(self, tables: DenseTables, state: State) -> Tensor:
        """(B, K) log p(z | past) of the next token's hidden state."""
        start = tables.start.expand(len(state[1]), -1)
        if not state[1].is_cuda and not bool(state[1].any()):  # a GPU would have to be waited for
            return start
        going_on = log_product(self._active_belief(tables, state), tables.transition)
        return torch.where(state[1][:, None], going_on, start)

    def _active_belief(self, tables: DenseTables, state: State) -> Tensor:
        """The (B, K) belief given that the last token's hidden state was an active one; uniform where it was none."""
        return renormalised(state[0][:, tables.active])
