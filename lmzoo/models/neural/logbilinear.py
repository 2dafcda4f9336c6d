"""The log-bilinear language model."""

from collections.abc import Mapping
from typing import Annotated

import torch
from torch import Tensor, nn

from lmzoo.core.options import Depth, Dropout, Idle, Initial, NonNegative, Probability, Size, configured
from lmzoo.models.neural.context import Fading, Matrices, NeuralWindowModel
from lmzoo.models.neural.output import Output, OutputOptions
from lmzoo.models.neural.pretrained import Pretrained, PretrainedOptions
from lmzoo.numerics.dropout import Dropping
from lmzoo.protocol.model import models


class LogBilinearOptions(OutputOptions, PretrainedOptions):
    order: Depth = 6
    """n; a word is predicted from the n - 1 words before it, with a matrix C_i for each position."""
    embedding: Size = 150
    """size of a word's feature vector, the number of R's columns."""
    diagonal: bool = False
    """whether every C_i is diagonal, see `Fading`; this makes long contexts cheap (Mnih & Hinton 2008)."""
    memory: Annotated[Probability, Idle(("model.diagonal", False)), Initial()] = 0.95
    """maximum α of `Fading` for diagonal matrices: initially, features keep between 0 and this fraction of their value
    per word."""
    dropout: Dropout = 0.3
    """dropout rate of the context's features and of r̂."""
    init: Annotated[NonNegative, Initial()] = 0.1
    """R is initialized uniformly in ±init, b with 0, and full C_i with 1 / (n - 1) of the identity."""


@models.register("logbilinear")
class LogBilinear(NeuralWindowModel):
    """p(w | w_1 … w_{n-1}) = softmax(R r̂ + b)_w with r̂ = Σ_i C_i r_{w_i}: the context predicts the word's features.

    Mnih & Hinton, *Three new graphical models for statistical language modelling*, ICML 2007, section 4,
    in its symbols. The rows r_w of one matrix R describe the words of the context and the predicted word. Dropout of
    the context's features and of r̂: Srivastava et al. (2014).
    """

    @configured(LogBilinearOptions)
    def __init__(self, vocabulary_size: int, options: LogBilinearOptions):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.order = options.order
        self.R = nn.Embedding(vocabulary_size, options.embedding)
        n, d = options.order, options.embedding
        self.C = Fading(n - 1, d, options.memory) if options.diagonal else Matrices(n - 1, d)
        self.b = nn.Parameter(torch.zeros(vocabulary_size))
        self.output = Output(self.R.weight, self.b, options.classes, options.clustering)
        self.dropout = Dropping(options.dropout)
        nn.init.uniform_(self.R.weight, -options.init, options.init)
        self.pretrained = Pretrained(options.embedding_from, options.embedding_frozen, self.R.weight)

    def word_vectors(self) -> Mapping[str, Tensor]:
        return {"input": self.R.weight}

    def features(self, words: Tensor, *condition: Tensor) -> Tensor:
        """(B, T + n - 2) words -> (B, T, embedding) r̂, one after every n - 1 words."""
        return self.dropout(self.C(self.add_condition(self.dropout(self.R(words)), condition)))
