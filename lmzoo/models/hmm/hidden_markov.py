"""The base class of all hidden Markov models of the zoo."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Generic

import torch
from torch import Tensor

from lmzoo.models.hmm.inference.paths import Chain, posterior
from lmzoo.protocol.bases import Tables, WithTables
from lmzoo.protocol.model import State


class HiddenMarkovModel(WithTables[Tables], Generic[Tables]):
    """p(x) = Σ_z Π_t p(z_t | z_{t-1}) p(x_t | z_t), where z_t is one of the hidden states 0, …, Z - 1.

    Its tables are the distributions; state dropout draws the hidden states of each call of `tables` anew.

    `chain`, `words`, `successors` and `next_words` show what is inside. They are meant for evaluation mode: in training
    some hidden states may be left out.
    """

    states: int
    """Z, the number of hidden states."""

    @abstractmethod
    def chain(self, tokens: Tensor, state: State) -> Chain:
        """What a (B, T) window needs of the model, for the functions of `lmzoo.models.hmm.inference.paths`."""

    @abstractmethod
    def words(self, z: int) -> Tensor:
        """(V,) log p(x_t | z_t = z) in nats."""

    @abstractmethod
    def successors(self, z: int) -> Tensor:
        """(Z,) log p(z_t | z_{t-1} = z) in nats."""

    @abstractmethod
    def next_words(self, z: int) -> Tensor:
        """(V,) log p(x_t | z_{t-1} = z) in nats."""

    def word_vectors(self) -> Mapping[str, Tensor]:
        """``states``: √p(z | x), all states being equally likely at first; a cosine is Σ_z √(p(z | x) p(z | y))."""
        with self.frozen():
            emission = torch.stack([self.words(z) for z in range(self.states)], dim=1)  # (V, Z)
        return {"states": emission.softmax(1).nan_to_num().sqrt()}

    def embed(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T) tokens -> (B, T, Z) √p(z_t | x), each from all words of its sentence, a row; 0 on padding.

        They have unit length, and the cosine of two is Σ_z √(p(z | x) p(z | y)). ``mask`` is False on padding.
        """
        B, T = tokens.shape
        lengths = tokens.new_full((B,), T) if mask is None else mask.sum(1)
        with self.frozen():
            chain = self.chain(tokens, self.initial_state(B))
        gamma = posterior(chain, lengths)
        return gamma.new_zeros(B, T, self.states).scatter_(2, chain.states[chain.block], gamma.sqrt())


def renormalised(belief: Tensor) -> Tensor:
    """(B, K) log-beliefs, normalised again after some hidden states were left out; uniform where every one is -inf."""
    lost = belief.isneginf().all(1, keepdim=True)
    return belief.masked_fill(lost, 0.0).log_softmax(1)
