"""A model whose training can be computed by hand, and a notebook in place of a run directory."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lmzoo.core.configs import defaults
from lmzoo.core.options import call
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.protocol.model import LanguageModel, State
from lmzoo.runs.directory import Run
from lmzoo.runs.trainer_options import TrainerOptions
from lmzoo.training.descent import Descent
from lmzoo.training.progress import Progress
from lmzoo.training.trainer import Trainer

SGD = {"name": "sgd", "lr": 1.0, "momentum": 0.0, "weight_decay": 0.0}
CONSTANT = {"name": "constant", "warmup": 0}


class Unigram(LanguageModel):
    """p(x_t) = softmax(w), so that ∂(-log p(x_t))/∂w is p minus the one-hot x_t. It notes what it is given.

    Its state is the number of tokens of the row that it has read.
    """

    autocast = True

    def __init__(self, vocabulary_size: int):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.w = nn.Parameter(torch.zeros(vocabulary_size))
        self.windows: list[list[list[int]]] = []
        self.states: list[list[float]] = []
        self.precisions: list[torch.dtype] = []

    def initial_state(self, batch_size: int) -> State:
        return (torch.zeros(batch_size),)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        if self.training:
            self.windows.append(tokens.tolist())
            self.states.append(state[0].tolist())
            self.precisions.append((torch.eye(2) @ torch.eye(2)).dtype)
        read = state[0] + tokens.shape[1] + 0 * self.w.sum()  # hangs on the gradient, as a network's state does
        return self.w.log_softmax(0)[tokens], (read,)

    def predict(self, state: State) -> Tensor:
        return self.w.log_softmax(0).expand(len(state[0]), -1)


class Notebook(Run):
    """Keeps what is saved, and how far training had come, in memory."""

    def __init__(self):
        super().__init__(Path("nowhere"))
        self.saved: list[tuple[str, dict[str, Any]]] = []

    def save(self, name: str, checkpoint: Mapping[str, Any]) -> None:
        self.saved.append((name, copy.deepcopy(dict(checkpoint))))

    def steps(self, name: str) -> list[int]:
        """After which steps a file was saved."""
        return [checkpoint["progress"]["step"] for saved, checkpoint in self.saved if saved == name]


def corpus_of(train: list[int], context: str = "stream", words: int = 4) -> Corpus:
    """A corpus whose three splits are the same tokens."""
    vocabulary = Vocabulary(["<eos>", *(f"w{i}" for i in range(1, words))])
    splits = {split: torch.tensor(train) for split in ("train", "valid", "test")}
    return Corpus("toy", context, vocabulary, splits, {})  # pyright: ignore[reportArgumentType]


def trainer_options(**changed: Any) -> TrainerOptions:
    options = {**defaults("trainer", "default"), "batch_size": 1, "bptt": 4, "clip": None}
    options |= {"precision": "float32"} | changed
    return call(TrainerOptions, options, "trainer.")


def trainer_of(
    model: LanguageModel,
    corpus: Corpus,
    observe: Callable[[Progress, dict[str, float]], None] = lambda *_: None,
    optimizer: Mapping[str, Any] = SGD,
    schedule: Mapping[str, Any] = CONSTANT,
    seed: int = 0,
    **options: Any,
) -> Trainer:
    """A trainer of a toy; what it saves is in its ``run``, a `Notebook`."""
    chosen, descent = trainer_options(**options), None
    if any(parameter.requires_grad for parameter in model.parameters()):
        descent = Descent(model, corpus, chosen, optimizer=optimizer, schedule=schedule, seed=seed)
    return Trainer(model, corpus, Notebook(), chosen, descent, observe)
