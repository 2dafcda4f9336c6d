"""The local tagger: a network that labels each word by itself, from dense features.

Belanger & Kakade, "A linear dynamical system model for text", ICML 2015, §7, https://arxiv.org/abs/1502.04081.
"""

from collections.abc import Mapping, Sequence
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.core.errors import UserError
from lmzoo.core.options import Count, Source
from lmzoo.labels.dense import Around, Dense, Scale
from lmzoo.labels.formats import Sentence
from lmzoo.labels.gradient import DescentOptions, NetworkLabeller
from lmzoo.labels.model import StateDict, labellers, numbered, packed, unpacked


@labellers.register("local")
class Local(NetworkLabeller[nn.Sequential]):
    """p(y_t | x) = softmax(W tanh(V f_t + c) + b), f_t the `Dense` features of word t.

    Args:
        vectors, encoder, around, scale: see `Dense`.
        hidden: units of the layer of V, between vectors and labels; 0: there is none, and p(y_t | x) = softmax(W f_t +
            b).
        batch: words of a step.

    Raises: UserError where neither vectors nor an encoder is named.
    """

    def __init__(
        self, *, vectors: Source | None, encoder: Source | list[Source] | None, around: Around, scale: Scale,
        hidden: Count, **descent: Unpack[DescentOptions],
    ):  # fmt: skip
        super().__init__(**descent)
        if vectors is None and not encoder:
            raise UserError("labeller=local has nothing to read", "set labeller.vectors=RUN or labeller.encoder=RUN")
        self.dense, self.hidden = Dense(vectors, encoder, around, scale), hidden

    def read(self, sentences: Sequence[Sentence]) -> None:
        self.features = self.dense.start(sentences, self.opener).to(self.device)
        self.width = self.features.shape[1]
        self.labels, gold = numbered(sentences)
        self.gold = torch.cat(gold).to(self.device)

    def build(self) -> nn.Sequential:
        layers = [nn.Linear(self.width, self.hidden), nn.Tanh()] if self.hidden else []
        return nn.Sequential(*layers, nn.Linear(self.hidden or self.width, len(self.labels)))

    def batches(self, random: np.random.Generator) -> Sequence[Tensor]:
        """The numbers of the words of the steps."""
        return torch.from_numpy(random.permutation(len(self.gold))).split(self.batch)

    def loss(self, batch: Tensor) -> tuple[Tensor, int]:
        words = batch.to(self.device)
        return F.cross_entropy(self.network(self.features[words]), self.gold[words]), 1

    def vocabularies(self) -> StateDict:
        return {"labels": packed(self.labels), **self.dense.state_dict()}

    def load_vocabularies(self, state: Mapping[str, Tensor]) -> None:
        self.labels = unpacked(state["labels"])
        self.dense.load_state_dict(state)
        self.width = self.dense.width

    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        with self.labelling():
            best = self.network(self.dense.rows(sentences).to(self.device)).argmax(1).cpu()
        words = best.split([len(sentence.words) for sentence in sentences])
        return [[self.labels[k] for k in row.tolist()] for row in words]
