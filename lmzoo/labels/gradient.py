"""What labellers that are networks have in common: what is kept of them, and the vectors that they start from."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from lmzoo.corpus import Vocabulary
from lmzoo.corpus.vocabulary import EOS
from lmzoo.labels.model import Labeller, State
from lmzoo.models.neural.pretrained import Pretrained
from lmzoo.numerics.averaging import Average
from lmzoo.protocol.model import restored

PREFIX = "network."
AVERAGE = "average"

N = TypeVar("N", bound=nn.Module)
Read = TypeVar("Read")


class NetworkLabeller(Labeller, Generic[N]):
    """A network that an optimizer learns. The random numbers of a step depend on the seed and its number alone.

    Attributes:
        network, optimizer, seed: set by `start`; the network by `know` as well.
        sums: what the optimizer keeps of each parameter, of its shape, beside the number of its steps.
        drawn: the order of an epoch, and which epoch that is.
        average: of the weights over the steps, which labels in their place; None: they label themselves.
    """

    checked = True
    any_device = True
    sums: Sequence[str] = ("exp_avg", "exp_avg_sq")
    average: Average | None = None
    drawn: tuple[int, Sequence[Any]] | None = None
    network: N
    optimizer: torch.optim.Optimizer
    seed: int

    @abstractmethod
    def known(self) -> State:
        """The words, labels and so on that the numbers of the network's inputs and outputs stand for."""

    @abstractmethod
    def know(self, state: Mapping[str, Tensor]) -> None:
        """Take those, and build a network for them."""

    def in_order(self, epoch: int, draw: Callable[[np.random.Generator], Sequence[Read]]) -> Sequence[Read]:
        """What the steps of an epoch read one after the other, drawn for each epoch."""
        if self.drawn is None or self.drawn[0] != epoch:
            self.drawn = epoch, draw(np.random.default_rng([self.seed, epoch]))
        return self.drawn[1]

    def draw(self, number: int) -> None:
        """Let random numbers be those of a step."""
        torch.manual_seed(int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0]))

    def follow(self, decay: float | None) -> None:
        """Label with an exponential average of the weights from now on; None: with the weights."""
        self.average = None if decay is None else Average(self.learnt(), decay)

    def learnt(self) -> list[nn.Parameter]:
        """The parameters of the network that change."""
        return [parameter for parameter in self.network.parameters() if parameter.requires_grad]

    def descend(self) -> None:
        """Take the optimizer's step."""
        self.optimizer.step()
        if self.average is not None:
            self.average.note()

    @contextmanager
    def labelling(self) -> Iterator[None]:
        """A context in which the network is what labels: without dropout, with averaged weights where there are."""
        self.network.eval()
        with nullcontext() if self.average is None else self.average.in_place(), torch.no_grad():
            yield

    def state(self) -> State:
        with self.labelling():
            return self.known() | self._weights()

    def _weights(self) -> State:
        return {PREFIX + name: value.detach().clone() for name, value in self.network.state_dict().items()}

    def take(self, state: Mapping[str, Tensor]) -> None:
        self.average = None
        restored(lambda: self.know(state), lambda _: self._load(state))
        self.network.to(self.device)

    def _load(self, state: Mapping[str, Tensor]) -> None:
        weights = {name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)}
        self.network.load_state_dict(weights)

    def progress(self) -> State:
        sums = {f"{name}.{i}": value for i, kept in self.optimizer.state_dict()["state"].items()
                for name, value in kept.items()}  # fmt: skip
        return self._weights() | sums | self._averaged()

    def _averaged(self) -> State:
        if self.average is None:
            return {}
        values = {f"{AVERAGE}{i}": value.clone() for i, value in enumerate(self.average.values)}
        return {AVERAGE: torch.tensor(self.average.steps), **values}

    def go_on(self, progress: Mapping[str, Tensor]) -> None:
        self._load(progress)
        if self.average is not None:
            values = [progress[f"{AVERAGE}{i}"].view_as(weight).to(weight, copy=True)
                      for i, weight in enumerate(self.average.weights)]  # fmt: skip
            steps = int(progress[AVERAGE].clamp(0, self.steps))
            self.average.load_state_dict({"steps": steps, "values": values})
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        for i, parameter in enumerate(parameters):
            if f"step.{i}" in progress:
                step = progress[f"step.{i}"].float().view(()).clamp(min=0)
                sums = {name: progress[f"{name}.{i}"].view_as(parameter).to(parameter, copy=True) for name in self.sums}
                self.optimizer.state[parameter] = {"step": step, **sums}


def placed(value: Any, device: torch.device) -> Any:
    """Tensors in tuples and lists, on a device."""
    if isinstance(value, list):
        return [placed(part, device) for part in value]
    if isinstance(value, tuple):
        parts = [placed(part, device) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value.to(device) if hasattr(value, "to") else value


def start_from(vectors: str | None, weight: Tensor, words: Sequence[str]) -> None:
    """Put word vectors into the last rows of an embedding, which are those of the words; None: leave them.

    Raises: UserError as `Pretrained` does.
    """
    rows = [" " if word == EOS else word for word in words]  # as <eos> has no vector, and its place is the first
    Pretrained(vectors, False, weight.detach()[-1 - len(words) :], ("labeller.vectors", "labeller.embedding")).estimate(
        Vocabulary([EOS, *rows])
    )
