"""The protocol of models that label words or texts."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from lmzoo.core.registry import Registry
from lmzoo.corpus import Vocabulary
from lmzoo.labels.formats import Form, Sentence
from lmzoo.protocol.model import LanguageModel, Trained

labellers = Registry("labeller")

Kind = Literal["words", "text", "tree"]
"""What has a label: each word of a sentence, a text as a whole, each node of a tree."""

State = dict[str, Tensor]
"""Numbers by name, and texts as `packed` has them."""


def packed(texts: Sequence[str]) -> Tensor:
    """Texts of one line each as (N,) bytes, so that they can stand in a `State`."""
    data = bytearray("\n".join(texts).encode())
    return torch.frombuffer(data, dtype=torch.uint8).clone() if data else torch.zeros(0, dtype=torch.uint8)


def unpacked(data: Tensor) -> list[str]:
    """The texts of `packed`."""
    return data.numpy().tobytes().decode().split("\n")


@dataclass(frozen=True)
class Learnt:
    """A labeller of a run, the options of ``labeller`` and ``task`` and the plugins of the run, and its text."""

    folder: str
    labeller: "Labeller"
    options: Mapping[str, Any]
    task: Mapping[str, Any]
    plugins: Sequence[str] = ()
    form: Form | None = None


class Labeller(ABC):
    """Learns from labelled sentences, and labels others.

    Attributes:
        kind: what it labels.
        steps: how many steps learning takes at most. A model that is learnt as soon as it has read its text takes none.
        epoch: how many steps read the text once.
        checked: whether the model is measured on valid after each epoch, and the best one kept; else the last one is.
        any_device: whether it learns on any device, and not on a CPU alone; then on ``device``, set before `start`.
    """

    kind: Kind = "words"
    steps: int = 0
    epoch: int = 1
    checked: bool = False
    any_device: bool = False
    device: torch.device = torch.device("cpu")

    @property
    def starts_from(self) -> tuple[str, str] | None:
        """The option that names the run of a language model to start from, and its folder; None: there is none."""
        return None

    def inherit(self, model: LanguageModel, vocabulary: Vocabulary) -> None:
        """Take over what that model has; called after `start`, before the first step.

        Raises: UserError where the model does not suit the options.
        """
        raise NotImplementedError

    @property
    def reads_with(self) -> tuple[str, str] | None:
        """The option that names the run of a language model to read all text with, and its folder; None: no model."""
        return None

    def read_with(self, run: Trained, vocabulary: Vocabulary) -> None:
        """Read text with that model; called before `start`. What is learnt holds the model.

        Raises: UserError where the model cannot be used.
        """
        raise NotImplementedError

    @property
    def made_of(self) -> tuple[str, Sequence[str]] | None:
        """The option that names runs of labellers which it is made of, and their folders; None: it is made of none."""
        return None

    def join(self, parts: Sequence[Learnt]) -> None:
        """Be made of these, the labellers of ``made_of``; called before `start`.

        Raises: UserError where they do not suit each other.
        """
        raise NotImplementedError

    @abstractmethod
    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        """Read the sentences of train; called once, before any step."""

    def step(self, number: int) -> dict[str, float]:
        """Take a step, the first being 0. Returns: figures by their tags in TensorBoard."""
        raise NotImplementedError

    @abstractmethod
    def state(self) -> State:
        """What is learnt."""

    @abstractmethod
    def take(self, state: Mapping[str, Tensor]) -> None:
        """Label with what another one of the same options has learnt. No text need have been read."""

    def progress(self) -> State:
        """All that later steps depend on, beside the text that was read."""
        return {}

    def go_on(self, progress: Mapping[str, Tensor]) -> None:  # noqa: B027 - nothing to do where there are no steps
        """Let the next steps be those after `progress`; called after `start`."""

    @abstractmethod
    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        """A label for each word of each sentence, or one for the whole; labels that sentences have are not read."""

    def figures(self, sentences: Sequence[Sentence]) -> dict[str, float | None]:
        """How good it is by measures that need more than its labels, from 0 to 1."""
        return {}
