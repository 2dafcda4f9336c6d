"""The log-bilinear language model."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.models.base import WindowModel
from lmzoo.models.output import token_logprobs
from lmzoo.registry import Dropout, NonNegative, Size, models


@models.register("logbilinear")
class LogBilinear(WindowModel):
    """r̂ = Σ_i C_i r_{w_i}, p(w | w_1 … w_{n-1}) = softmax(R r̂ + b)_w: the context predicts a word's features.

    Mnih & Hinton, *Three new graphical models for statistical language modelling*, ICML 2007, section 4,
    in its symbols. One matrix R describes the words of the context and the next. Dropout of the context's
    features and of r̂: Srivastava et al. (2014).

    Args:
        order: n; a word is predicted from the n - 1 before it, through a matrix C_i for each place.
        embedding: the number of features of a word, R's columns.
        init: R is drawn uniformly from ±init; each C_i starts as 1 / (n - 1) of the identity, b as zero.
    """

    autocast = True

    def __init__(self, *, vocabulary_size: int, order: Size, embedding: Size, dropout: Dropout, init: NonNegative):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.order = order
        self.R = nn.Embedding(vocabulary_size, embedding)
        self.C = nn.Linear((order - 1) * embedding, embedding, bias=False)  # [C_1 … C_{n-1}]
        self.b = nn.Parameter(torch.zeros(vocabulary_size))
        self.dropout = nn.Dropout(dropout)
        nn.init.uniform_(self.R.weight, -init, init)
        with torch.no_grad():
            self.C.weight.copy_(torch.eye(embedding).repeat(1, order - 1) / max(1, order - 1))

    def predicted(self, context: Tensor) -> Tensor:
        """(N, n - 1) contexts -> (N, embedding), r̂."""
        r = self.dropout(self.R(context).flatten(1))  # (N, (n - 1) · embedding)
        return self.dropout(self.C(r))

    def next_logprobs(self, context: Tensor) -> Tensor:
        return F.log_softmax(F.linear(self.predicted(context), self.R.weight, self.b).float(), dim=1)

    def token_logprobs(self, context: Tensor, tokens: Tensor) -> Tensor:
        return token_logprobs(self.predicted(context), self.R.weight, self.b, tokens)
