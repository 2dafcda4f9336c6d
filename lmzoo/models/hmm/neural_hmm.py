"""The dense HMM with a neural parameterisation (Chiu and Rush 2020)."""

import torch
from torch import nn

from lmzoo.core.options import Dropout, Options, Size, configured
from lmzoo.models.hmm.dense_hmm import DenseHMM, DenseTables, over_words
from lmzoo.models.hmm.state_vectors import Residual
from lmzoo.numerics.precision import at_least_float32
from lmzoo.protocol.model import models


class NeuralHMMOptions(Options):
    states: Size = 128
    """Z, the number of hidden states."""
    dim: Size = 256
    """d, the size of all vectors."""
    dropout: Dropout = 0.0
    """dropout rate of the outputs of the networks of states, drawn per batch."""
    state_dropout: Dropout = 0.0
    """fraction of the hidden states that is dropped, drawn per batch."""


@models.register("neural_hmm")
class NeuralHMM(DenseHMM):
    """The HMM of Chiu and Rush (2020) without clusters: the dense neural HMM that they compare theirs with.

    The vectors of states are e_i as origin, drawn from N(0, 1), and e′_j as destination, drawn from N(0, 1/d):
        p(z_1 = i) ∝ exp(w·Res_s(e_i)),
        p(j | i)   ∝ exp(Res_t(e_i)·e′_j),
        p(x | i)   ∝ exp(w_x·Res_e(e_i) + b_x) over all words.
    State dropout draws round((1 - state_dropout) Z) hidden states for every batch, at least one, and acts as if there
    were no others.
    """

    autocast = True

    @configured(NeuralHMMOptions)
    def __init__(self, vocabulary_size: int, options: NeuralHMMOptions):
        super().__init__(vocabulary_size, options.states)
        states, dim = options.states, options.dim
        self.keep = max(1, round(states * (1 - options.state_dropout)))
        self.origin, self.destination = nn.Embedding(states, dim), nn.Embedding(states, dim)
        nn.init.normal_(self.destination.weight, std=dim**-0.5)
        self.start, self.transition, self.emission = (Residual(dim, options.dropout) for _ in range(3))
        self.first = nn.Linear(dim, 1, bias=False)
        self.word = nn.Linear(dim, vocabulary_size)

    def tables(self) -> DenseTables:
        active = torch.arange(self.states, device=self.device)
        if self.training and self.keep < self.states:
            active = torch.randperm(self.states, device=self.device)[: self.keep]
        e = self.origin(active)  # (K, d)
        start = at_least_float32(self.first(self.start(e)))[:, 0]
        transition = at_least_float32(self.transition(e) @ self.destination(active).T)
        emission = at_least_float32(self.word.weight @ self.emission(e).T) + self.word.bias[:, None]
        return DenseTables(active, start.log_softmax(0), transition.log_softmax(1), over_words(emission))
