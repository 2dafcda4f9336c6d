"""The local tagger: a network that labels each word by itself, from dense features.

Belanger & Kakade, "A linear dynamical system model for text", ICML 2015, §7, https://arxiv.org/abs/1502.04081.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.core.errors import UserError
from lmzoo.core.options import Count, NonNegative, Size, Source
from lmzoo.corpus import Vocabulary
from lmzoo.labels.dense import Around, Dense
from lmzoo.labels.formats import Sentence
from lmzoo.labels.gradient import NetworkLabeller
from lmzoo.labels.model import State, labellers, packed, unpacked
from lmzoo.protocol.model import Trained


@labellers.register("local")
class Local(NetworkLabeller[nn.Sequential]):
    """p(y_t | x) = softmax(W tanh(V f_t + c) + b), f_t the `Dense` features of word t; learnt by Adam.

    A step is a batch of words.

    Args:
        vectors, encoder, around, scale: see `Dense`.
        hidden: units of the layer of V, between vectors and labels; 0: there is none, and p(y_t | x) = softmax(W f_t +
            b).
        epochs: how often train is read.
        batch: words of a step.
        lr: Adam's rate in the first step, from which it falls to 0 in a straight line.

    Raises: UserError where neither vectors nor an encoder is named.
    """

    def __init__(
        self, *, vectors: Source | None, encoder: Source | None, around: Around, scale: NonNegative,
        hidden: Count, epochs: Size, batch: Size, lr: NonNegative,
    ):  # fmt: skip
        if vectors is None and encoder is None:
            raise UserError("labeller=local has nothing to read", "set labeller.vectors=RUN or labeller.encoder=RUN")
        self.dense = Dense(vectors, encoder, around, scale)
        self.hidden, self.epochs, self.batch, self.lr = hidden, epochs, batch, lr

    @property
    def reads_with(self) -> tuple[str, str] | None:
        return self.dense.reads_with

    def read_with(self, run: Trained, vocabulary: Vocabulary) -> None:
        self.dense.read_with(run, vocabulary)

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        self.seed = seed
        self.labels = sorted({label for sentence in sentences for label in sentence.labels})
        number = {label: i for i, label in enumerate(self.labels)}
        self.gold = torch.tensor([number[label] for sentence in sentences for label in sentence.labels])
        self.features = self.dense.start(sentences)
        self.epoch = -(-len(self.gold) // self.batch)
        self.steps = self.epochs * self.epoch
        torch.manual_seed(seed)
        self._build(self.features.shape[1])
        self.network.to(self.device)
        self.features, self.gold = self.features.to(self.device), self.gold.to(self.device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=self.lr)

    def _build(self, features: int) -> None:
        layers = [nn.Linear(features, self.hidden), nn.Tanh()] if self.hidden else []
        self.network = nn.Sequential(*layers, nn.Linear(self.hidden or features, len(self.labels)))

    def _words(self, epoch: int) -> Sequence[Tensor]:
        """The numbers of the words of each step of an epoch."""

        def drawn(random: np.random.Generator) -> Sequence[Tensor]:
            return torch.from_numpy(random.permutation(len(self.gold))).split(self.batch)

        return self.in_order(epoch, drawn)

    def step(self, number: int) -> dict[str, float]:
        epoch, place = divmod(number, self.epoch)
        words = self._words(epoch)[place].to(self.device)
        loss = F.cross_entropy(self.network(self.features[words]), self.gold[words])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.param_groups[0]["lr"] = rate = self.lr * (1 - number / self.steps)
        self.optimizer.step()
        return {"loss/train": float(loss.detach()), "train/learning_rate": rate}

    def known(self) -> State:
        return {"labels": packed(self.labels), **self.dense.state()}

    def know(self, state: Mapping[str, Tensor]) -> None:
        self.labels = unpacked(state["labels"])
        self.dense.take(state)
        self._build(self.dense.width)

    @torch.no_grad()
    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        best = self.network(self.dense.rows(sentences).to(self.device)).argmax(1).cpu()
        words = best.split([len(sentence.words) for sentence in sentences])
        return [[self.labels[k] for k in row.tolist()] for row in words]
