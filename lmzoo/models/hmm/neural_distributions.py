"""Distributions of block-sparse HMMs that are computed from state vectors by small networks (Chiu and Rush 2020)."""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lmzoo.models.hmm.block_hmm import BlockHMMOptions, Transitions
from lmzoo.models.hmm.inference.emissions import emission_table, word_logprobs
from lmzoo.models.hmm.state_vectors import Destinations, state_network, state_vectors
from lmzoo.numerics.precision import at_least_float32


class NeuralTransitions(nn.Module, ABC):
    """The chain of hidden states: p(z_t | z_{t-1}) as a subclass defines it, and p(z_1 = i) ∝ exp(w·Res_s(e_i)).

    Args:
        origin: the vectors e_i of states as origin, to which those as destination may be tied.
    """

    power: ClassVar[float] = -0.5
    """Of d in the standard deviation of the numbers in the vectors v_j of fresh states as destination."""

    def __init__(self, options: BlockHMMOptions, origin: nn.Module):
        super().__init__()
        self.add_networks(options)
        self.destinations = Destinations(options, origin, options.dim**self.power)

    def add_networks(self, options: BlockHMMOptions) -> None:
        """Make the networks that start and transitions need."""
        self.start, self.first = state_network(options), nn.Linear(options.dim, 1, bias=False)
        self.transition = state_network(options)

    def first_states(self, e: Tensor, v: Tensor) -> Tensor:
        """(M, K) log p(z_1) of the active states, given their (M, K, d) vectors as origin and as destination."""
        return at_least_float32(self.first(self.start(e))).flatten().log_softmax(0).view(e.shape[:2])

    @abstractmethod
    def forward(self, e: Tensor, v: Tensor, states: Tensor) -> Transitions:
        """The transitions between the active (M, K) states, given their (M, K, d) vectors as origin and destination."""

    @abstractmethod
    def logprobs(self, e: Tensor, v: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """(N,) log p(target | source) without state dropout.

        Args:
            e: (n, d) vectors of the different states that are left.
            v: (M, S, d) the vectors of all states as destination.
            source: (N,) rows of e.
            target: (N,) states.
        """


class NeuralDistributions(nn.Module):
    """Every distribution is computed from state vectors e_i:

        p(x | i) ∝ exp(w_x·Res_e(e_i) + b_x) over the words of i's cluster,

    and those of the states by `NeuralTransitions`.

    The vectors of states are drawn from N(0, 0.01). The paper draws them from N(0, 1), but such long vectors change
    their direction slowly. A factored vector has one half from its cluster. Factored vectors pass a further residual
    layer before every network, and another to become v_j. Free v_j, and free e_i that are tied to them, are drawn from
    N(0, 1/d), or from N(0, 1/√d) by `lowrank_hmm`; from N(0, 1) the first transitions would be almost deterministic.
    """

    def __init__(self, vocabulary_size: int, options: BlockHMMOptions, transitions: type[NeuralTransitions]):
        super().__init__()
        self.clusters, self.states = options.clusters, options.states
        self.origin, self.emission = state_vectors(options), state_network(options)
        self.word = nn.Linear(options.dim, vocabulary_size)
        self.transitions = transitions(options, self.origin)

    def forward(self, states: Tensor, cluster: Tensor) -> tuple[Tensor, Tensor, Transitions]:
        e = self.origin(states)  # (M, K, d)
        v = self.transitions.destinations(e, states)
        emission = emission_table(self.emission(e), self.word.weight, self.word.bias, cluster)
        return self.transitions.first_states(e, v), emission, self.transitions(e, v, states)

    def joint_logprobs(self, source: Tensor, target: Tensor, words: Tensor, cluster: Tensor) -> Tensor:
        """The terms of the complete-data log-likelihood, without state dropout.

        Args:
            source, target: (N,) z_{t-1} and z_t; z_{t-1} is -1 where a chain begins.
            words: (N,) x_t, words of the cluster of z_t.
            cluster: (V,) the cluster of each word.

        Returns: (N,) log p(z_t | z_{t-1}) + log p(x_t | z_t) in nats.
        """
        states = torch.arange(self.states, device=cluster.device).view(self.clusters, -1)
        e = self.origin(states)
        v = self.transitions.destinations(e, states)
        different, place = torch.cat([source, target]).unique(return_inverse=True)
        own = F.embedding(different.clamp_min(0), e.flatten(0, 1))  # (n, d)
        before, now = place.split(len(target))
        emitted = word_logprobs(self.emission(own), self.word.weight, self.word.bias, cluster, now, words)
        arrived = self.transitions.logprobs(own, v, before, target)
        return emitted + torch.where(source < 0, self.transitions.first_states(e, v).flatten()[target], arrived)
