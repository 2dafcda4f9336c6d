"""Iterations of an estimation, such as EM: a run saves them, and goes on from the last one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from lmzoo.core.progress import Bar

StateDict = Mapping[str, Any]

Iterate = Callable[..., Iterator[int]]
"""Has the arguments of `iterations`, all by position."""


def _unsaved(total: int, what: str, _: Any, __: Any, start: Callable[[], None], notes: Any) -> Iterator[int]:
    start()
    with Bar(total, "iteration", what) as bar:
        for number in range(total):
            yield number
            bar.update(*notes())


_iterate: ContextVar[Iterate] = ContextVar("iterate", default=_unsaved)


@contextmanager
def iterated_by(iterate: Iterate) -> Iterator[None]:
    """A context in which this does the loops of `iterations`, to save them."""
    token = _iterate.set(iterate)
    try:
        yield
    finally:
        _iterate.reset(token)


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
    return _iterate.get()(total, what, state_dict, load_state_dict, start, notes)
