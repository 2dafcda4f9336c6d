"""What labellers that are networks have in common: what is kept of them, and the vectors that they start from."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from lmzoo.corpus import Vocabulary
from lmzoo.corpus.vocabulary import EOS
from lmzoo.labels.model import Labeller, State
from lmzoo.models.neural.pretrained import Pretrained

PREFIX = "network."

N = TypeVar("N", bound=nn.Module)


class NetworkLabeller(Labeller, Generic[N]):
    """A network that an optimizer learns. The random numbers of a step depend on the seed and its number alone.

    Attributes:
        network, optimizer, seed: set by `start`; the network by `know` as well.
    """

    checked = True
    network: N
    optimizer: torch.optim.Optimizer
    seed: int

    @abstractmethod
    def known(self) -> State:
        """The words, labels and so on that the numbers of the network's inputs and outputs stand for."""

    @abstractmethod
    def know(self, state: Mapping[str, Tensor]) -> None:
        """Take those, and build a network for them."""

    def draw(self, number: int) -> None:
        """Let random numbers be those of a step."""
        torch.manual_seed(int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0]))

    def state(self) -> State:
        return self.known() | self._weights()

    def _weights(self) -> State:
        return {PREFIX + name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def take(self, state: Mapping[str, Tensor]) -> None:
        self.know(state)
        self._load(state)

    def _load(self, state: Mapping[str, Tensor]) -> None:
        weights = {name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)}
        self.network.load_state_dict(weights)

    def progress(self) -> State:
        sums = {f"{name}.{i}": value for i, kept in self.optimizer.state_dict()["state"].items()
                for name, value in kept.items()}  # fmt: skip
        return self._weights() | sums

    def go_on(self, progress: Mapping[str, Tensor]) -> None:
        self._load(progress)
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        for i, parameter in enumerate(parameters):
            names = [name for name in progress if name.endswith(f".{i}") and not name.startswith(PREFIX)]
            if names:
                self.optimizer.state[parameter] = {name.partition(".")[0]: progress[name].clone() for name in names}


def start_from(vectors: str | None, weight: Tensor, words: Sequence[str]) -> None:
    """Put word vectors into the last rows of an embedding, which are those of the words; None: leave them.

    Raises: UserError as `Pretrained` does.
    """
    rows = [" " if word == EOS else word for word in words]  # as <eos> has no vector, and its place is the first
    Pretrained(vectors, False, weight.detach()[-1 - len(words) :], ("labeller.vectors", "labeller.embedding")).estimate(
        Vocabulary([EOS, *rows])
    )
