"""Models that predict each word from a vector of its history."""

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from torch import Tensor

from lmzoo.protocol.model import State


@runtime_checkable
class HasVectors(Protocol):
    """p(x_t | x_<t) = output(h_t) with h_t, the vector that x_t is predicted from."""

    if TYPE_CHECKING:  # no part of `isinstance`, which does not find a module within a module since Python 3.12
        output: Any
        """``output(h, x)`` is (N,) log p(x | h) for (N, d) h and (N,) x; ``output.predict(h)`` is (N, V)."""

    def vectors(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(B, T) tokens and the state before them -> the (B, T, d) vectors that predict them, the state after them."""
        ...

    def next_vector(self, state: State) -> Tensor:
        """The (B, d) vector that predicts the next token."""
        ...
