"""The feed-forward neural language model."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from lmzoo.core.options import Depth, Dropout, Idle, Initial, NonNegative, Probability, Size, configured
from lmzoo.models.neural.context import Fading, NeuralWindowModel, averaged, concatenated
from lmzoo.models.neural.output import Output, OutputOptions
from lmzoo.models.neural.pretrained import Pretrained, PretrainedOptions
from lmzoo.numerics.dropout import Dropping
from lmzoo.protocol.model import models


class NNLMOptions(OutputOptions, PretrainedOptions):
    order: Depth = 5
    """n; a word is predicted from its context, the n - 1 words before it."""
    embedding: Size = 100
    """m, the size of the feature vectors, C's rows."""
    hidden: Size = 200
    """h, the size of the hidden layers."""
    layers: Depth = 1
    """number of hidden layers; after the first, a ← a + tanh(d_l + H_l norm(a)) (He et al. 2016; layer norm, Ba et al.
    2016)."""
    context: Literal["concatenated", "averaged", "fading"] = "concatenated"
    """how x is computed from the context's n - 1 vectors: see `concatenated`, `averaged` and `Fading`."""
    memory: Annotated[Probability, Idle(("model.context", "concatenated", "averaged")), Initial()] = 0.95
    """maximum α of a `Fading` context: features keep between 0 and this fraction of their value per word."""
    direct: bool = False
    """whether there is W, direct connections from x to the output."""
    tied: bool = False
    """whether input and output embeddings are tied through a projection: U = C P (Press & Wolf 2017) and W = C D, which
    makes b + W x log-bilinear (Mnih & Hinton 2007). P is m × h; D has the columns of W."""
    norm: bool = True
    """whether the first hidden layer is tanh(norm(d + H x)), with layer norm. Without it, as in 2003, gradients soon
    vanish."""
    gated: bool = False
    """whether the first hidden layer's tanh is multiplied by a gate σ(g + G x) (van den Oord et al., "Conditional image
    generation with PixelCNN decoders", NIPS 2016, equation 2)."""
    dropout: Dropout = 0.3
    """dropout rate of input and hidden layers (Srivastava et al. 2014)."""
    init: Annotated[NonNegative, Initial()] = 0.1
    """weights are initialized uniformly in ±init, biases with 0."""


@models.register("nnlm")
class NNLM(NeuralWindowModel):
    """p(w | context) = softmax(y)_w with y = b + W x + U tanh(d + H x), x the feature vectors of the context's words.

    Bengio, Ducharme, Vincent & Jauvin, *A neural probabilistic language model*, JMLR 2003, equation 1,
    in its symbols. Options add what came later.
    """

    @configured(NNLMOptions)
    def __init__(self, vocabulary_size: int, options: NNLMOptions):
        super().__init__()
        m, h, places, dropout = options.embedding, options.hidden, options.order - 1, options.dropout
        self.vocabulary_size = vocabulary_size
        self.order, self.direct = options.order, options.direct
        self.C = nn.Embedding(vocabulary_size, m)
        if options.context == "fading":
            self.context = Fading(places, m, options.memory)
        else:
            self.context = partial(concatenated if options.context == "concatenated" else averaged, places=places)
        width = places * m if options.context == "concatenated" else m
        self.H = nn.Linear(width, h)  # its bias is d
        self.deeper = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(h), nn.Linear(h, h), nn.Tanh(), Dropping(dropout))
            for _ in range(options.layers - 1)
        )
        self.norm = nn.LayerNorm(h) if options.norm else nn.Identity()
        self.G = nn.Linear(width, h) if options.gated else None  # its bias is g
        seen = h + options.direct * width
        self.PD = nn.Linear(seen, m, bias=False) if options.tied else nn.Identity()  # P's columns, then D's
        linear = nn.Linear(m if options.tied else seen, vocabulary_size)
        weight = self.C.weight if options.tied else linear.weight  # U's columns, then W's
        self.output = Output(weight, linear.bias, options.classes, options.clustering)  # its bias is b
        self.dropout = Dropping(dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding | Output):
                nn.init.uniform_(module.weight, -options.init, options.init)
            if isinstance(module, nn.Linear | Output) and module.bias is not None:
                nn.init.zeros_(module.bias)
        self.pretrained = Pretrained(options.embedding_from, options.embedding_frozen, self.C.weight)

    def word_vectors(self) -> Mapping[str, Tensor]:
        return {"input": self.C.weight, "output": self.output.weight}

    def features(self, words: Tensor, *condition: Tensor) -> Tensor:
        """(B, T + n - 2) words -> a, or [a x] where ``direct``, times PD where tied: (B, T, columns of U and W)."""
        x = self.context(self.add_condition(self.dropout(self.C(words)), condition))  # (B, T, width)
        a = torch.tanh(self.norm(self.H(x)))  # (B, T, h)
        if self.G is not None:
            a = a * torch.sigmoid(self.G(x))
        a = self.dropout(a)
        for layer in self.deeper:
            a = a + layer(a)
        return self.PD(torch.cat([a, x], dim=2) if self.direct else a)
