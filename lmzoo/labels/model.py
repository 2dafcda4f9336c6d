"""The protocol of models that label words, texts or trees."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from lmzoo.core.registry import Registry
from lmzoo.corpus import Vocabulary
from lmzoo.labels.formats import Layout, Sentence
from lmzoo.protocol.model import Trained

labellers = Registry("labeller")

FEWER = "is task.label the column of labels? So many are few words' own"
"""The advice where labels are too many."""

LabelKind = Literal["words", "text", "tree"]
"""What has a label: each word of a sentence, a text as a whole, each node of a tree."""

StateDict = dict[str, Tensor]
"""Numbers by name, and texts as `packed` has them."""


def packed(texts: Sequence[str]) -> Tensor:
    """Texts of one line each as (N,) bytes, so that they can stand in a `StateDict`."""
    data = bytearray("\n".join(texts).encode())
    return torch.frombuffer(data, dtype=torch.uint8).clone() if data else torch.zeros(0, dtype=torch.uint8)


def unpacked(data: Tensor) -> list[str]:
    """The texts of `packed`."""
    return data.numpy().tobytes().decode().split("\n")


def under(prefix: str, state: Mapping[str, Tensor]) -> StateDict:
    """The numbers whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


def numbered(sentences: Sequence[Sentence]) -> tuple[list[str], list[Tensor]]:
    """The labels of sentences in alphabetical order, and for each sentence the numbers of its labels, int64."""
    labels = sorted({label for sentence in sentences for label in sentence.labels})
    number = {label: i for i, label in enumerate(labels)}
    return labels, [torch.tensor([number[label] for label in sentence.labels]) for sentence in sentences]


@dataclass(frozen=True)
class TrainedLabeller:
    """A labeller of a run, the options of ``labeller`` and ``task`` and the plugins of the run, and its text."""

    folder: str
    labeller: "Labeller"
    options: Mapping[str, Any]
    task: Mapping[str, Any]
    plugins: Sequence[str] = ()
    layout: Layout | None = None


class Opener:
    """Opens the trained runs that options name; a UserError where one cannot be used, which names the option."""

    def language_model(self, option: str, folder: str) -> tuple[Trained, Vocabulary]:
        """A language model and its words."""
        raise NotImplementedError

    def labeller(self, option: str, folder: str) -> TrainedLabeller:
        """A labeller that has learnt the same task."""
        raise NotImplementedError


class Labeller(ABC):
    """Learns from labelled sentences, and labels others.

    Attributes:
        kind: what it labels.
        steps: how many steps learning takes at most. A model that is learnt as soon as it has read its text takes none.
        epoch: how many steps read the text once.
        checked: whether the model is measured on valid after each epoch, and the best one kept; else the last one is.
        any_device: whether it learns on any device, and not on a CPU alone.
        device, opener: set before `start`.
    """

    kind: LabelKind = "words"
    steps: int = 0
    epoch: int = 1
    checked: bool = False
    any_device: bool = False
    device: torch.device = torch.device("cpu")
    opener: Opener = Opener()

    @abstractmethod
    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        """Read train, before any step; a UserError where options, or the runs that they name, do not suit it."""

    def begin(self) -> None:  # noqa: B027 - most need nothing
        """Do what the first step needs and a resumed run does not; called after `start`."""

    def step(self, number: int) -> dict[str, float]:
        """Take a step, the first being 0. Returns: figures by their tags in TensorBoard."""
        raise NotImplementedError

    @abstractmethod
    def state_dict(self) -> StateDict:
        """What is learnt."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Label with what another one of the same options has learnt. No text need have been read."""

    def progress(self) -> StateDict:
        """All that later steps depend on, beside the text that was read."""
        return {}

    def resume(self, progress: Mapping[str, Tensor]) -> None:  # noqa: B027 - nothing to do where there are no steps
        """Let the next steps be those after `progress`; called after `start`."""

    @abstractmethod
    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        """A label for each word of each sentence, or one for the whole; labels that sentences have are not read."""

    def figures(self, sentences: Sequence[Sentence]) -> dict[str, float | None]:
        """How good it is by measures that need more than its labels, from 0 to 1."""
        return {}
