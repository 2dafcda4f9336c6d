"""Optional capabilities of language models, as protocols for `isinstance`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from lmzoo.protocol.model import LanguageModel, State


@runtime_checkable
class Encoder(Protocol):
    """Computes a vector of each token from its sentence; in recurrent networks, from the words up to the token."""

    def embed(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T) tokens of sentences, and a (B, T) mask, False on padding -> (B, T, h) vectors."""
        ...

    @property
    def device(self) -> torch.device:
        """The device for the tokens."""
        ...


@runtime_checkable
class HasVectors(Protocol):
    """Predicts x_t from a vector h_t: p(x_t | x_<t) = output(h_t)."""

    if TYPE_CHECKING:  # excluded from `isinstance`, which since Python 3.12 does not find modules in modules
        output: Any
        """``output(h, x)`` is (N,) log p(x | h) for (N, d) h and (N,) x; ``output.predict(h)`` is (N, V).
        With ``output.predict_clusters``, see `lmzoo.models.neural.output.Output`, it can be a teacher of another
        model."""

    def vectors(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(B, T) tokens and the state before them -> (B, T, d) vectors that predict them, and the state after them."""
        ...

    def next_vector(self, state: State) -> tuple[Tensor, State]:
        """The (B, d) vector that predicts the next token, and the input of `end_step`."""
        ...


class TeacherPredictions(NamedTuple):
    """A teacher's predictions at N positions: the next word's cluster, and the next word given its cluster."""

    clusters: Tensor
    """(N, M) p(c | x_<t)."""
    within: Callable[[Tensor, Tensor], Tensor]
    """Positions and words -> (n, m) log p(w | x_<t) in nats, up to a constant per cluster."""


@runtime_checkable
class Imitates(Protocol):
    """Can be trained by knowledge distillation: on the predictions of a teacher besides the text."""

    teacher: str | None
    """The run directory of the teacher, from the option ``model.teacher``."""

    def imitate(self, teacher: LanguageModel) -> None:
        """Add the cross-entropy with the teacher, which reads each sentence separately, to the training loss.

        Raises: UserError if the teacher does not provide the predictions.
        """
        ...


@runtime_checkable
class Draws(Protocol):
    """Samples words faster than from the full distribution."""

    def draw(self, state: State, random: torch.Generator) -> tuple[Tensor, State]:
        """Draw (B, 1) words from p(x_t | x_<t) in each row of a state. Returns: them, and the state after them."""
        ...


class LogZ(NamedTuple):
    """An estimate of log Z in nats, its standard error, and the effective and actual sample size."""

    value: float
    error: float
    effective: float
    samples: int


@runtime_checkable
class HasLogZ(Protocol):
    """Has p(x) = p*(x) / Z for a sentence x, with log Z estimated from samples."""

    @property
    def log_z(self) -> LogZ: ...


class HiddenChain(Protocol):
    """A hidden Markov model of one sentence, p(x) = Σ_z Π_t p(z_t | z_{t-1}) p(x_t | z_t), as sums over its states.

    All arguments and results are log-probabilities in nats, float64, of N rows, Z states and V words.
    """

    start: Tensor
    """(Z,) log p(z_1)."""

    def class_logprobs(self, classes: Tensor, number: int) -> Tensor:
        """(V,) classes of words, 0 to ``number`` - 1 -> (number, Z) log Σ p(x | z) over the words x of each."""
        ...

    def step_backward(self, v: Tensor, needed: Tensor | None = None) -> Tensor:
        """(N, Z) v -> (N, Z) log Σ_j p(j | i) exp(v_j) of each state i; any value where ``needed`` (N, Z) is False."""
        ...

    def step_forward(self, u: Tensor, needed: Tensor | None = None) -> Tensor:
        """(N, Z) u -> (N, Z) log Σ_i exp(u_i) p(j | i) of each state j; any value where ``needed`` is False."""
        ...

    def words(self, w: Tensor) -> Tensor:
        """(N, Z) w -> (N, V) log Σ_z exp(w_z) p(x | z) of each word x."""
        ...

    def emission_logprobs(self, words: Tensor) -> Tensor:
        """(N,) words x -> (N, Z) log p(x | z)."""
        ...


@runtime_checkable
class HasChain(Protocol):
    """Is a hidden Markov model, so that any event of a sentence has an exact probability."""

    def hidden_chain(self) -> HiddenChain:
        """Tables of the model, which must not change while they are used; called in evaluation mode.

        Raises: UserError if the states are too many.
        """
        ...
