"""Iterations of an estimation, such as EM: they are saved, and a run goes on from the last one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any

from lmzoo.core.progress import Bar

StateDict = Mapping[str, Any]


class Keeper:
    """Saves the iterations of an estimation, whose loops are numbered 0, 1, … in their order. This class saves none."""

    def begin(self, loop: int, start: Callable[[], None], load_state_dict: Callable[[StateDict], None]) -> int:
        """Start a loop, or load its saved state, and hold signals back until `end`; returns the iterations done."""
        start()
        return 0

    def note(self, loop: int, done: int, state_dict: Callable[[], StateDict]) -> None:
        """An iteration is done; may save, and end the loop by an exception."""

    def end(self) -> None:
        """A loop has ended, of itself or by an exception."""


_keeping: ContextVar[tuple[Keeper, Iterator[int]]] = ContextVar("keeping", default=(Keeper(), count()))


@contextmanager
def kept_by(keeper: Keeper) -> Iterator[None]:
    """A context in which a keeper saves the loops of `iterations`."""
    token = _keeping.set((keeper, count()))
    try:
        yield
    finally:
        _keeping.reset(token)


def iterations(
    total: int,
    what: str,
    state_dict: Callable[[], StateDict],
    load_state_dict: Callable[[StateDict], None],
    *,
    start: Callable[[], None] = lambda: None,
    notes: Callable[[], Sequence[str]] = tuple,
) -> Iterator[int]:
    """``range(total)``, whose progress is shown, and which goes on where it was saved.

    Args:
        what: the name of the method, such as EM.
        state_dict: all that later iterations depend on.
        load_state_dict: takes that over, from where it was saved.
        start: does what comes before the first iteration, which is not done again where the loop goes on.
        notes: what a line of the log has beside the number of iterations.
    """
    keeper, numbers = _keeping.get()
    loop = next(numbers)
    begun = keeper.begin(loop, start, load_state_dict)
    try:
        with Bar(total, "iteration", what, begun) as bar:
            for number in range(begun, total):
                yield number
                bar.update(*notes())
                keeper.note(loop, number + 1, state_dict)
    finally:
        keeper.end()
