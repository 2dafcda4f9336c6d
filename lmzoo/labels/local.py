"""The local tagger: a network that labels each word independently, from dense features.

Belanger & Kakade, "A linear dynamical system model for text", ICML 2015, §7, https://arxiv.org/abs/1502.04081.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.core.errors import UserError
from lmzoo.core.options import Bounds, Count, NonNegative, Size, configured
from lmzoo.labels.dense import NONE, Dense, DenseOptions
from lmzoo.labels.formats import Sentence
from lmzoo.labels.gradient import DescentOptions, NetworkLabeller
from lmzoo.labels.model import index_labels, labellers


class LocalOptions(DescentOptions, DenseOptions):
    window: Annotated[int, Bounds(low=0, high=10), NONE] = 1
    epochs: Size = 20
    batch: Size = 128
    """words per batch."""
    lr: NonNegative = 0.003
    hidden: Count = 25
    """units of the hidden layer V; 0: no hidden layer, p(y_t | x) = softmax(W f_t + b)."""


@labellers.register("local")
class Local(NetworkLabeller[nn.Sequential]):
    """p(y_t | x) = softmax(W tanh(V f_t + c) + b), f_t the `Dense` features of word t.

    Raises: UserError without vectors and encoder.
    """

    saved = ("labels", "width", "dense")

    @configured(LocalOptions)
    def __init__(self, options: LocalOptions):
        super().__init__(**options.inherited(DescentOptions))
        if options.vectors is None and not options.encoder:
            raise UserError("labeller=local has nothing to read", "set labeller.vectors=RUN or labeller.encoder=RUN")
        self.dense, self.hidden = Dense(**options.inherited(DenseOptions)), options.hidden

    def read(self, sentences: Sequence[Sentence]) -> None:
        self.features = self.dense.start(sentences, self.open_model).to(self.device)
        self.width = self.features.shape[1]
        self.labels, gold = index_labels(sentences)
        self.gold = torch.cat(gold).to(self.device)

    def build(self) -> nn.Sequential:
        layers = [nn.Linear(self.width, self.hidden), nn.Tanh()] if self.hidden else []
        return nn.Sequential(*layers, nn.Linear(self.hidden or self.width, len(self.labels)))

    def loss(self, batch: Tensor) -> tuple[Tensor, int]:
        words = batch.to(self.device)
        return F.cross_entropy(self.network(self.features[words]), self.gold[words]), 1

    @torch.no_grad()
    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        self.network.eval()
        best = self.network(self.dense.rows(sentences).to(self.device)).argmax(1).cpu()
        words = best.split([len(sentence.words) for sentence in sentences])
        return [[self.labels[k] for k in row.tolist()] for row in words]
