"""Iterations of an estimation, such as EM: they are saved, and a run goes on from the last one."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Protocol

from torch import Tensor

from lmzoo.core.progress import Bar

State = Mapping[str, Tensor]


class Keeper(Protocol):
    """Saves iterations. An estimation may have several loops of them, which are numbered 0, 1, … in their order."""

    def begin(self, loop: int, take: Callable[[State], None]) -> int:
        """How many iterations of a loop were done when it was saved; ``take`` is given its state then.

        From now to `end` a signal that ends the program waits for `note`.
        """
        ...

    def note(self, loop: int, done: int, state: Callable[[], State]) -> None:
        """An iteration is done; may save, and end the loop by an exception."""
        ...

    def end(self) -> None:
        """A loop has ended, of itself or by an exception."""
        ...


class _Unkept:
    """Saves nothing, and so every loop begins at its beginning."""

    def begin(self, loop: int, take: Callable[[State], None]) -> int:
        return 0

    def note(self, loop: int, done: int, state: Callable[[], State]) -> None:
        pass

    def end(self) -> None:
        pass


_keeping: ContextVar[tuple[Keeper, Iterator[int]]] = ContextVar("keeping", default=(_Unkept(), count()))


@contextmanager
def kept_by(keeper: Keeper) -> Iterator[None]:
    """A context in which a keeper saves the loops of `iterations`."""
    token = _keeping.set((keeper, count()))
    try:
        yield
    finally:
        _keeping.reset(token)


def iterations(total: int, what: str, state: Callable[[], State], take: Callable[[State], None]) -> Iterator[int]:
    """``range(total)``, whose progress is shown, and which goes on where it was saved.

    Args:
        what: the name of the method, such as EM.
        state: all that later iterations depend on.
        take: takes that over, from where it was saved.
    """
    keeper, numbers = _keeping.get()
    loop = next(numbers)
    begun = keeper.begin(loop, take)
    try:
        with Bar(total, "iteration", what, begun) as bar:
            for number in range(begun, total):
                yield number
                bar.update()
                keeper.note(loop, number + 1, state)
    finally:
        keeper.end()
