"""The interface of models that label words, texts or trees."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from lmzoo.core.registry import Registry
from lmzoo.corpus import Vocabulary
from lmzoo.labels.formats import Layout, Sentence
from lmzoo.protocol.model import Trained

labellers = Registry("labeller")

FEWER = "check that task.label is the column of labels, not of words"
"""The advice if there are too many labels."""

LabelKind = Literal["words", "text", "tree"]
"""The unit of labels: each word of a sentence, a whole text, each node of a tree."""

StateDict = dict[str, Any]
"""Tensors by name, and lists and dictionaries of them; other values are encoded by `encode`."""


def encode(value: Any) -> Tensor:
    """Encode strings, or lists or dictionaries of them, as (N,) bytes of JSON for a `StateDict`."""
    return torch.frombuffer(bytearray(json.dumps(value, ensure_ascii=False).encode()), dtype=torch.uint8)


def decode(data: Tensor) -> Any:
    """Decode the value of `encode`."""
    return json.loads(data.numpy().tobytes())


def index_labels(sentences: Sequence[Sentence]) -> tuple[list[str], list[Tensor]]:
    """The sorted labels of sentences, and the int64 indices of each sentence's labels."""
    labels = sorted({label for sentence in sentences for label in sentence.labels})
    number = {label: i for i, label in enumerate(labels)}
    return labels, [torch.tensor([number[label] for label in sentence.labels]) for sentence in sentences]


@dataclass(frozen=True)
class TrainedLabeller:
    """The labeller of a run, the run's options of ``labeller`` and ``task``, its plug-ins, and its text's layout."""

    folder: str
    labeller: "Labeller"
    options: Mapping[str, Any]
    task: Mapping[str, Any]
    plugins: Sequence[str] = ()
    layout: Layout | None = None


OpenModel = Callable[[str, str], tuple[Trained, Vocabulary]]
"""Loads a trained language model and its vocabulary; its arguments are the option that names the run, and the folder.
Raises a UserError with the option if the run cannot be used."""


def _nothing(option: str, folder: str) -> Any:
    raise NotImplementedError(f"{option}: no way to load {folder} is set")


class Saved:
    """The base of objects whose state is some of their attributes, and is restored without reading a text before."""

    saved: ClassVar[Sequence[str]] = ()
    """Names of the attributes: tensors, others that are `Saved`, or values for `encode`."""

    def state_dict(self) -> StateDict:
        """The trained parameters and vocabularies."""
        state: StateDict = {}
        for name in self.saved:
            value = getattr(self, name)
            state[name] = value.state_dict() if isinstance(value, Saved) else value
            if not isinstance(value, Saved | Tensor):
                state[name] = encode(value)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict` of an object with the same options."""
        for name in self.saved:
            if isinstance(part := getattr(self, name, None), Saved):
                part.load_state_dict(state[name])
            else:
                setattr(self, name, decode(value) if (value := state[name]).dtype == torch.uint8 else value)


class Labeller(Saved, ABC):
    """Trains on labelled sentences, and labels others.

    Attributes:
        kind: the unit of labels.
        steps: the maximum number of training steps; 0 if reading the text completes training.
        epoch: the number of steps per epoch.
        checked: whether the model is evaluated on valid after each epoch and the best one saved, not the last.
        any_device: whether it supports all devices, not only CPUs.
        device, open_model, open_labeller: set before `start`; the last two load what an option names, a language model,
            or a labeller for the same task.
    """

    kind: LabelKind = "words"
    steps: int = 0
    epoch: int = 1
    checked: bool = False
    any_device: bool = False
    device: torch.device = torch.device("cpu")
    open_model: OpenModel = staticmethod(_nothing)
    open_labeller: Callable[[str, str], TrainedLabeller] = staticmethod(_nothing)

    @abstractmethod
    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        """Read train, before any step; raise a UserError if options or source runs do not suit it."""

    def begin(self) -> None:
        """Initialize a run that is not resumed; called after `start`."""

    def step(self, number: int) -> dict[str, float]:
        """Take step ``number``, counted from 0. Returns: metrics by TensorBoard tag."""
        raise NotImplementedError

    def state(self) -> StateDict:
        """What later steps depend on, besides the text."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`; called after `start`."""

    @abstractmethod
    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        """Predict a label for each word of each sentence, or one for the whole; existing labels are ignored."""

    def figures(self, sentences: Sequence[Sentence]) -> dict[str, float | None]:
        """Measures from 0 to 1 that need more than predicted labels."""
        return {}
