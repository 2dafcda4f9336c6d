"""An output layer that mixes several softmaxes.

Yang, Dai, Salakhutdinov & Cohen, "Breaking the softmax bottleneck", ICLR 2018, https://arxiv.org/abs/1711.03953
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.models.neural.output import Output
from lmzoo.models.neural.softmax import token_logprobs
from lmzoo.numerics.precision import in_autocast_type


class MixtureOfSoftmaxes(Output):
    """p(x | h) = Σ_k π_k(h) softmax(W tanh(U_k h + u_k) + b)_x with π(h) = softmax(P h + p).

    Args:
        weight, bias: (V, e) W and (V,) b, as in `Output`.
        features: the size of h.
        softmaxes: K.
    """

    def __init__(self, weight: Tensor, bias: Tensor, features: int, softmaxes: int):
        super().__init__(weight, bias, classes=None)
        self.P = nn.Linear(features, softmaxes)
        self.U = nn.Linear(features, softmaxes * weight.shape[1])

    def _parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(N, d) h -> (N, K) log π and (N K, e) vectors, all of a row together."""
        with torch.autocast(hidden.device.type, enabled=False):
            prior = self.P(hidden.to(self.weight.dtype)).log_softmax(1)
        return prior, torch.tanh(self.U(hidden)).view(-1, self.weight.shape[1])

    def forward(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """(N, d) h and (N,) int64 x -> (N,) log p(x | h) in nats."""
        prior, vectors = self._parts(hidden)
        tensors = in_autocast_type(vectors, self.weight, self.bias)
        each = token_logprobs(*tensors, tokens=tokens.repeat_interleave(prior.shape[1]), alike=False)
        return (prior + each.view_as(prior)).logsumexp(1)

    def predict(self, hidden: Tensor) -> Tensor:
        """(N, d) h -> (N, V) log p(x | h) of every word x in nats."""
        prior, vectors = self._parts(hidden)
        each = F.linear(vectors, self.weight, self.bias).log_softmax(1)
        return (prior[..., None] + each.view(*prior.shape, len(self.weight))).logsumexp(1)
