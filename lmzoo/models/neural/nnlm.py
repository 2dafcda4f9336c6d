"""The feed-forward neural language model."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from lmzoo.core.options import Depth, Dropout, Idle, NonNegative, Probability, Size, Source
from lmzoo.models.neural.context import Fading, NeuralWindowModel, averaged, concatenated
from lmzoo.models.neural.output import FORMER_NAMES, ClassClustering, Output
from lmzoo.models.neural.pretrained import Pretrained
from lmzoo.numerics.dropout import Dropping
from lmzoo.protocol.model import models


@models.register("nnlm")
class NNLM(NeuralWindowModel):
    """p(w | context) = softmax(y)_w with y = b + W x + U tanh(d + H x), x the feature vectors of the context's words.

    Bengio, Ducharme, Vincent & Jauvin, *A neural probabilistic language model*, JMLR 2003, equation 1,
    in its symbols. Options add what came later.

    Args:
        order: n; a word is predicted from its context, the n - 1 words before it.
        embedding: m, the size of C's rows, the feature vectors.
        hidden: h, the size of the hidden layers.
        layers: how many hidden layers there are; after the first, a ← a + tanh(d_l + H_l norm(a)) (He et al. 2016;
            layer norm, Ba et al. 2016).
        context: how x is made of the context's n - 1 vectors: see `concatenated`, `averaged` and `Fading`.
        memory: see `Fading`.
        direct: whether there is W, by which x reaches the output past the hidden layers.
        tied: whether input and output words share their vectors through a projection: U = C P (Press & Wolf 2017) and
            W = C D, which makes b + W x log-bilinear (Mnih & Hinton 2007). P is m × h; D has the columns of W.
        classes, clustering: see `Output`.
        norm: whether the first hidden layer is tanh(norm(d + H x)), with layer norm. Without the norm, as in 2003, its
            gradients soon vanish.
        gated: whether the first hidden layer's tanh is multiplied by σ(g + G x), which can shut a unit (van den Oord et
            al., "Conditional image generation with PixelCNN decoders", NIPS 2016, equation 2).
        dropout: its rate, of the input and of hidden layers (Srivastava et al. 2014).
        init: weights are drawn uniformly from ±init; biases start at zero.
        embedding_from: a run of ``lmzoo vectors``, or a file of word vectors of the same dimension, which C starts
            from. None: none.
        embedding_frozen: whether these vectors stay as they are.
    """

    former_names: ClassVar = {"output.": "UW.", **FORMER_NAMES}

    def __init__(
        self,
        *,
        vocabulary_size: int,
        order: Depth,
        embedding: Size,
        hidden: Size,
        layers: Depth,
        context: Literal["concatenated", "averaged", "fading"],
        memory: Annotated[Probability, Idle(("model.context", "concatenated", "averaged"))],
        direct: bool,
        tied: bool,
        classes: Size | None,
        clustering: ClassClustering,
        norm: bool,
        gated: bool,
        dropout: Dropout,
        init: NonNegative,
        embedding_from: Source | None,
        embedding_frozen: bool,
    ):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.order = order
        self.direct = direct
        width = (order - 1) * embedding if context == "concatenated" else embedding
        self.C = nn.Embedding(vocabulary_size, embedding)
        if context == "fading":
            self.context = Fading(order - 1, embedding, memory)
        else:
            self.context = partial(concatenated if context == "concatenated" else averaged, places=order - 1)
        self.H = nn.Linear(width, hidden)  # its bias is d
        self.deeper = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.Tanh(), Dropping(dropout))
            for _ in range(layers - 1)
        )
        self.norm = nn.LayerNorm(hidden) if norm else nn.Identity()
        self.G = nn.Linear(width, hidden) if gated else None  # its bias is g
        seen = hidden + direct * width
        self.PD = nn.Linear(seen, embedding, bias=False) if tied else nn.Identity()  # P's columns, then D's
        linear = nn.Linear(embedding if tied else seen, vocabulary_size)
        weight = self.C.weight if tied else linear.weight  # U's columns, then W's
        self.output = Output(weight, linear.bias, classes, clustering)  # its bias is b
        self.dropout = Dropping(dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding | Output):
                nn.init.uniform_(module.weight, -init, init)
            if isinstance(module, nn.Linear | Output) and module.bias is not None:
                nn.init.zeros_(module.bias)
        self.pretrained = Pretrained(embedding_from, embedding_frozen, self.C.weight)

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
