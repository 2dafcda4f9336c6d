"""An Elman network that begins as a Kalman filter: Belanger & Kakade, ICML 2015, §7, arxiv.org/abs/1502.04081"""

from typing import Annotated

import torch
from torch import nn

from lmzoo.core.options import Initial, NonNegative, Size, configured
from lmzoo.corpus import Corpus
from lmzoo.models.lds.lds import LDSOptions, fit_text, state_whitener
from lmzoo.models.neural.recurrent import Recurrent, RecurrentOptions
from lmzoo.protocol.model import models

RMS = 0.5
"""Root mean square of a state's component at the start: there tanh is still close to the identity."""


class LDSRNNOptions(RecurrentOptions, LDSOptions):
    dynamics: Annotated[bool, Initial()] = True
    """whether the recurrent weights of the first layer are initialized from the filter."""
    input: Annotated[bool, Initial()] = True
    """whether the embeddings, which are not tied, are initialized from the filter."""
    hidden: Size = 100
    """h, the size of embeddings and states, and of the linear system's state."""
    init: Annotated[NonNegative, Initial()] = 0.1
    """other weights are initialized uniformly in ±init."""


@models.register("lds_rnn")
class LDSRNN(Recurrent):
    """A recurrent network whose weights start from a linear dynamical system; its embeddings are untied.

    The filter is f_t = H f_{t-1} + k_{w_t}. In coordinates f′ = S f with S = ½ E[f fᵀ]^{-½} it is an Elman network
    without tanh: recurrent weights S H S⁻¹, embeddings S k_w, the identity from embeddings to states. The network
    starts from these weights, with embeddings cut to the length √h, and from output biases log μ. With neither
    ``dynamics`` nor ``input`` it is a `Recurrent` network, and no system is fitted.
    """

    cell = nn.RNN

    @configured(LDSRNNOptions)
    def __init__(self, vocabulary_size: int, options: LDSRNNOptions):
        super().__init__(vocabulary_size, embedding=options.hidden, tied=False, **options.inherited(RecurrentOptions))
        self.system: LDSOptions = options
        self.dynamics, self.input = options.dynamics, options.input

    @torch.no_grad()
    def estimate(self, corpus: Corpus) -> None:
        super().estimate(corpus)
        if not (self.dynamics or self.input):
            return
        fitted = fit_text(self, corpus, self.system)
        S = RMS * state_whitener(fitted)
        first = next(part for part in self.recurrent.modules() if isinstance(part, nn.RNNBase))
        if self.dynamics:
            first.get_parameter("weight_hh_l0").copy_(torch.linalg.solve(S, S @ fitted.steady.H, left=False))
        if self.input:
            words = fitted.gains() @ S
            norms = words.norm(dim=1, keepdim=True)
            self.embedding.weight.copy_(words * (len(S) ** 0.5 / norms).clamp(max=1))
            nn.init.eye_(first.get_parameter("weight_ih_l0"))
        self.output.start_from_frequencies(fitted.mu)
