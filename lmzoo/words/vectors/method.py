"""What every method for word vectors does."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor

from lmzoo.core.registry import Registry
from lmzoo.corpus import Corpus

methods = Registry("method")


class Method(ABC):
    """A way to learn a vector for each word of a text, in steps.

    What a step does depends on its number, the seed and `state` alone. So a run goes on exactly where it stopped.
    Constructors take required keyword-only options; their defaults are in ``configs/method`` alone.

    Attributes:
        steps: their number, known after `start`.
        words: V words, known after `start`.
        any_device: whether steps compute on any device, and not on a CPU alone; then on ``device``, set before `start`.
    """

    any_device: bool = False
    device: torch.device = torch.device("cpu")

    steps: int
    words: list[str]

    @property
    def starts_from(self) -> tuple[str, str] | None:
        """The option that names the run of a language model to take vectors from, and its folder; None: no model."""
        return None

    def inherit(self, parts: Mapping[str, Tensor]) -> None:
        """Take `LanguageModel.word_vectors` of that model, (V, d) each, by their names; called before `start`.

        Raises: UserError where the model does not have what is asked for.
        """
        raise NotImplementedError

    @abstractmethod
    def start(self, corpus: Corpus, seed: int) -> None:
        """Read ``corpus.train`` and make the vectors that the first step begins with.

        Raises: UserError where the options do not suit the text.
        """

    @abstractmethod
    def step(self, number: int) -> dict[str, float]:
        """Do step ``number``, 0 … steps - 1; returns what TensorBoard shows of it."""

    @abstractmethod
    def tokens(self, number: int) -> int:
        """How many tokens of the text the first ``number`` steps read."""

    @abstractmethod
    def state(self) -> Mapping[str, Tensor]:
        """What steps change; a resumed run copies into these tensors what they were."""

    @abstractmethod
    def vectors(self) -> Tensor:
        """(V, d) float32, after the last step."""


class Ready(Method):
    """A method whose vectors are there once `start` has read the text; its one step does nothing.

    Attributes:
        matrix: (V, d) float32, set by `start`.
        read: how many tokens the text has, set by `start`.
    """

    steps = 1
    matrix: Tensor
    read: int

    def step(self, number: int) -> dict[str, float]:
        return {}

    def tokens(self, number: int) -> int:
        return number * self.read

    def state(self) -> Mapping[str, Tensor]:
        return {}

    def vectors(self) -> Tensor:
        return self.matrix
