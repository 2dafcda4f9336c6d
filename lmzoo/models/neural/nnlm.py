"""The feed-forward neural language model."""

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from lmzoo.core.options import Dropout, NonNegative, Probability, Size
from lmzoo.core.registry import models
from lmzoo.models.neural.context import Averaged, Concatenated, Fading, NeuralWindowModel
from lmzoo.models.neural.output import Output


@models.register("nnlm")
class NNLM(NeuralWindowModel):
    """y = b + W x + U tanh(d + H x), p(w | context) = softmax(y)_w, x the context's feature vectors.

    Bengio, Ducharme, Vincent & Jauvin, *A neural probabilistic language model*, JMLR 2003, equation 1,
    in its symbols. Since then: dropout of the words' features and of the hidden layer (Srivastava et al. 2014) and
    further hidden layers, a ← a + tanh(d_l + H_l norm(a)) (He et al. 2016; layer norm, Ba et al. 2016), the first one
    normed, too, and gated; and U = C P, the words' feature vectors at the output as well (Press & Wolf 2017),
    with W = C D, so that b + W x is a log-bilinear model (Mnih & Hinton 2007).

    Args:
        order: n; a word is predicted from the n - 1 before it.
        embedding: m, the size of C's rows, the feature vectors.
        hidden: h, the size of the hidden layer.
        layers: hidden layers, the first as in the paper.
        context: whether x is the context's n - 1 vectors ``concatenated``, or ``averaged``, or summed by `Fading`.
        memory: the slowest rate at which a feature fades at first, where the context is fading.
        direct: whether x reaches the output by W, past the hidden layer.
        tied: whether U = C P and W = C D, P with h columns and D with those of W.
        classes: of words in a two-level softmax, `WordClasses`; None for one softmax over all words.
        norm: whether the first hidden layer is tanh(norm(d + H x)), without which its gradients soon vanish.
        gated: whether the first hidden layer's tanh is multiplied by σ(g + G x), so that a unit can be shut (van den
            Oord et al., "Conditional image generation with PixelCNN decoders", NIPS 2016, equation 2).
        init: weights are drawn uniformly from ±init; biases start at zero.
    """

    former_names: ClassVar = {"output.": "UW.", **NeuralWindowModel.former_names}

    def __init__(
        self,
        *,
        vocabulary_size: int,
        order: Size,
        embedding: Size,
        hidden: Size,
        layers: Size,
        context: Literal["concatenated", "averaged", "fading"],
        memory: Probability,
        direct: bool,
        tied: bool,
        classes: Size | None,
        norm: bool,
        gated: bool,
        dropout: Dropout,
        init: NonNegative,
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
            self.context = Concatenated(order - 1) if context == "concatenated" else Averaged(order - 1)
        self.H = nn.Linear(width, hidden)  # its bias is d
        self.deeper = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.Tanh(), nn.Dropout(dropout))
            for _ in range(layers - 1)
        )
        self.norm = nn.LayerNorm(hidden) if norm else nn.Identity()
        self.G = nn.Linear(width, hidden) if gated else None  # its bias is g
        seen = hidden + direct * width
        self.PD = nn.Linear(seen, embedding, bias=False) if tied else nn.Identity()  # P's columns, then D's
        linear = nn.Linear(embedding if tied else seen, vocabulary_size)
        self.output = Output(self.C.weight if tied else linear.weight, linear.bias, classes)  # U's columns, then W's; b
        self.dropout = nn.Dropout(dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding | Output):
                nn.init.uniform_(module.weight, -init, init)
            if isinstance(module, nn.Linear | Output) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def features(self, words: Tensor) -> Tensor:
        """(B, T + n - 2) words -> a, [a x], or what PD makes of it: (B, T, columns of U and W)."""
        x = self.context(self.dropout(self.C(words)))  # (B, T, width)
        a = torch.tanh(self.norm(self.H(x)))  # (B, T, h)
        if self.G is not None:
            a = a * torch.sigmoid(self.G(x))
        a = self.dropout(a)
        for layer in self.deeper:
            a = a + layer(a)
        return self.PD(torch.cat([a, x], dim=2) if self.direct else a)
