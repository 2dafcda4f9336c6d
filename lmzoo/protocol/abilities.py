"""What some language models can do beside what all of them can, as protocols for `isinstance`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from lmzoo.protocol.model import LanguageModel, State


@runtime_checkable
class Encoder(Protocol):
    """Gives every token of a sentence a vector, made from all its words; of a recurrent network from those up to it."""

    def embed(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T) tokens of sentences, and a mask that is False on padding -> (B, T, h) vectors."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the tokens must be."""
        ...


@runtime_checkable
class HasVectors(Protocol):
    """p(x_t | x_<t) = output(h_t) with h_t, the vector that x_t is predicted from."""

    if TYPE_CHECKING:  # no part of `isinstance`, which does not find a module within a module since Python 3.12
        output: Any
        """``output(h, x)`` is (N,) log p(x | h) for (N, d) h and (N,) x; ``output.predict(h)`` is (N, V).
        Where there is ``output.predict_clusters``, see that of `lmzoo.models.neural.output.Output`, another model can
        imitate this one."""

    def vectors(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(B, T) tokens and the state before them -> the (B, T, d) vectors that predict them, the state after them."""
        ...

    def next_vector(self, state: State) -> tuple[Tensor, State]:
        """The (B, d) vector that predicts the next token, and what `end_step` needs."""
        ...


class TeacherPredictions(NamedTuple):
    """What a teacher predicts at N places: the next word's cluster, and the next word where its cluster is known."""

    clusters: Tensor
    """(N, M) p(c | x_<t)."""
    within: Callable[[Tensor, Tensor], Tensor]
    """Places and words -> (n, m) log p(w | x_<t) in nats, up to a number that a cluster's words share."""


@runtime_checkable
class Imitates(Protocol):
    """Learns from the predictions of another model beside the text: knowledge distillation."""

    teacher: str | None
    """The folder of the run to imitate, the option ``model.teacher``."""

    def imitate(self, teacher: LanguageModel) -> None:
        """Add to the loss, in training, the cross-entropy with the teacher, which reads each sentence by itself.

        Raises: UserError where the teacher's predictions cannot be had.
        """
        ...


@runtime_checkable
class Draws(Protocol):
    """Draws words faster than by the probabilities of all of them."""

    def draw(self, state: State, random: torch.Generator) -> tuple[Tensor, State]:
        """(B, 1) words, each drawn from p(x_t | x_<t) after its row of a state, and the state after them."""
        ...


@runtime_checkable
class Matches(Protocol):
    """Predicts from the longest context that a text has."""

    def matched(self, state: State) -> Tensor:
        """(B,) how many words that context has, `<eos>` before a line among them."""
        ...


class LogZ(NamedTuple):
    """The estimate of a normaliser's logarithm in nats, its standard error, and the sample's effective and own size."""

    value: float
    error: float
    effective: float
    samples: int


@runtime_checkable
class HasLogZ(Protocol):
    """p(x) = p*(x) / Z of a sentence x, with log Z estimated from samples."""

    @property
    def log_z(self) -> LogZ: ...
