"""The feed-forward neural language model."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.models.base import WindowModel
from lmzoo.models.output import token_logprobs
from lmzoo.registry import Dropout, NonNegative, Probability, Size, models


@models.register("nnlm")
class NNLM(WindowModel):
    """y = b + W x + U tanh(d + H x), p(w | context) = softmax(y)_w, x the context's feature vectors.

    Bengio, Ducharme, Vincent & Jauvin, *A neural probabilistic language model*, JMLR 2003, equation 1,
    in its symbols. Since then: dropout of x and of the hidden layer (Srivastava et al. 2014) and further
    hidden layers, a ← a + tanh(d_l + H_l norm(a)) (He et al. 2016; layer norm, Ba et al. 2016), the first one
    normed too; and U = C P, the words' feature vectors at the output as well (Press & Wolf 2017), with W = C D,
    so that b + W x is a log-bilinear model (Mnih & Hinton 2007).

    Args:
        order: n; a word is predicted from the n - 1 before it.
        embedding: m, the size of C's rows, the feature vectors.
        hidden: h, the size of the hidden layer.
        layers: hidden layers, the first as in the paper.
        context: whether x is the context's n - 1 vectors ``concatenated``, or ``averaged``, or ``forgetting``: z_{t-1}
            and z_{t-2} side by side, z_t = C(w_t) + α z_{t-1}, the sizes of words falling with their distance (Zhang
            et al., "The fixed-size ordinally-forgetting encoding method for neural network language models", 2015).
        forgetting: α.
        direct: whether x reaches the output by W, past the hidden layer.
        tied: whether U = C P and W = C D, P with h columns and D with those of W.
        norm: whether the first hidden layer is tanh(norm(d + H x)), without which its gradients soon vanish.
        init: weights are drawn uniformly from ±init; biases start at zero.
    """

    autocast = True

    def __init__(
        self,
        *,
        vocabulary_size: int,
        order: Size,
        embedding: Size,
        hidden: Size,
        layers: Size,
        context: Literal["concatenated", "averaged", "forgetting"],
        forgetting: Probability,
        direct: bool,
        tied: bool,
        norm: bool,
        dropout: Dropout,
        init: NonNegative,
    ):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.order = order
        self.direct = direct
        self.context, self.forgetting = context, forgetting
        width = {"concatenated": order - 1, "averaged": 1, "forgetting": 2}[context] * embedding
        self.C = nn.Embedding(vocabulary_size, embedding)
        self.H = nn.Linear(width, hidden)  # its bias is d
        self.deeper = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.Tanh(), nn.Dropout(dropout))
            for _ in range(layers - 1)
        )
        self.norm = nn.LayerNorm(hidden) if norm else nn.Identity()
        seen = hidden + direct * width
        self.PD = nn.Linear(seen, embedding, bias=False) if tied else nn.Identity()  # P's columns, then D's
        self.UW = nn.Linear(embedding if tied else seen, vocabulary_size)  # U's columns, then W's; its bias is b
        if tied:
            self.UW.weight = self.C.weight
        self.dropout = nn.Dropout(dropout)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.uniform_(module.weight, -init, init)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def features(self, context: Tensor) -> Tensor:
        """(N, n - 1) contexts -> what the output layer sees: a, [a x], or what PD makes of it; (N, columns of UW)."""
        x = self.dropout(self.put_together(self.C(context)))  # (N, width)
        a = self.dropout(torch.tanh(self.norm(self.H(x))))  # (N, h)
        for layer in self.deeper:
            a = a + layer(a)
        return self.PD(torch.cat([a, x], dim=1) if self.direct else a)

    def put_together(self, vectors: Tensor) -> Tensor:
        """(N, n - 1, m) vectors of the context's words, oldest first -> (N, width), x."""
        if self.context == "averaged":
            return vectors.sum(1) / max(1, self.order - 1)
        if self.context == "forgetting":
            fading = self.forgetting ** torch.arange(self.order - 2, -1, -1, device=vectors.device).to(vectors.dtype)
            return torch.cat([fading @ vectors, fading[1:] @ vectors[:, :-1]], dim=1)
        return vectors.flatten(1)

    def next_logprobs(self, context: Tensor) -> Tensor:
        return F.log_softmax(self.UW(self.features(context)).float(), dim=1)

    def token_logprobs(self, context: Tensor, tokens: Tensor) -> Tensor:
        return token_logprobs(self.features(context), self.UW.weight, self.UW.bias, tokens)
