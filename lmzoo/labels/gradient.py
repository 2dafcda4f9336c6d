"""The base of neural labellers: gradient descent, and initialization with word vectors."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from lmzoo.core.options import BelowOne, NonNegative, Options, Size, configured
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import Labeller, StateDict
from lmzoo.models.neural.pretrained import Pretrained

N = TypeVar("N", bound=nn.Module)


class DescentOptions(Options):
    epochs: Size
    """number of passes over the training text."""
    batch: Size
    """sentences per batch."""
    optimizer: str = "adam"
    """an entry of `lmzoo train optimizer=`, with its defaults except for the learning rate."""
    lr: NonNegative
    """learning rate."""
    schedule: str = "linear"
    """learning-rate schedule, an entry of `lmzoo train schedule=` with its defaults."""
    average: BelowOne | None = None
    """decay of the exponential average of weights used for labelling; None: no averaging."""


class NetworkLabeller(Labeller, Generic[N]):
    """A network trained by gradient descent, one batch per step: see `lmzoo.training.labels.NetworkDescent`.

    The random numbers of a step depend only on the seed and its number.

    Attributes:
        clip: the maximum gradient norm; None: unlimited.
        gold: the labels of train by sentence or by word, set by `read`.
        network: set by `start` and `load_state_dict`.
        seed: set by `start`.
        order: the current epoch, and its batches.
    """

    checked = True
    saved = ("labels",)
    any_device = True
    clip: float | None = None
    gold: Any
    network: N
    seed: int
    order: tuple[int, Sequence[Any]]

    @configured(DescentOptions)
    def __init__(self, options: DescentOptions):
        self.options = options
        self.batch, self.lr = options.batch, options.lr

    @abstractmethod
    def read(self, sentences: Sequence[Sentence]) -> None:
        """Read the sentences of train, and set what `build` and `batches` need."""

    @abstractmethod
    def build(self) -> N:
        """Build a network with random weights for the text of `read`."""

    def batches(self, random: np.random.Generator) -> Sequence[Any]:
        """The batches of an epoch in random order, by default of indices of ``gold``."""
        return torch.from_numpy(random.permutation(len(self.gold))).split(self.batch)

    @abstractmethod
    def loss(self, batch: Any) -> tuple[Tensor, int]:
        """The loss of the network on a batch, a sum or a mean, and the number of its terms."""

    def parameter_groups(self) -> list[dict[str, Any]]:
        """The trainable parameters and their learning rates, as for optimizers of PyTorch."""
        trained = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        return [{"params": trained, "lr": self.lr}]

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        self.seed = seed
        self.read(sentences)
        torch.manual_seed(seed)
        self.network = self.build().to(self.device)
        self.order = 0, self.batches(np.random.default_rng([seed, 0]))
        self.epoch = len(self.order[1])
        self.steps = self.options.epochs * self.epoch

    def loss_at(self, number: int) -> tuple[Tensor, int]:
        """The `loss` of the batch of step ``number``, counted from 0."""
        epoch, place = divmod(number, self.epoch)
        if self.order[0] != epoch:
            self.order = epoch, self.batches(np.random.default_rng([self.seed, epoch]))
        torch.manual_seed(int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0]))
        self.network.train()
        return self.loss(self.order[1][place])

    def state_dict(self) -> StateDict:
        weights = {name: value.detach().clone() for name, value in self.network.state_dict().items()}
        return super().state_dict() | {"network": weights}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        network = self.build()
        network.load_state_dict(state["network"])
        self.network = network.to(self.device)


def to_device(value: Any, device: torch.device) -> Any:
    """Move tensors in tuples and lists to a device."""
    if isinstance(value, list | tuple):
        parts = [to_device(part, device) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value.to(device) if isinstance(value, Tensor) else value


def initialize_embeddings(vectors: str | None, weight: Tensor, words: Sequence[str]) -> None:
    """Initialize the last rows of an embedding, those of ``words``, from word vectors, if any, as `Pretrained` does."""
    options = "labeller.vectors", "labeller.embedding"
    Pretrained(vectors, False, weight.detach()[len(weight) - len(words) :], options).estimate(words)
