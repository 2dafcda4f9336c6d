"""Iterations of an estimation, such as EM, which a run saves and resumes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from lmzoo.core.progress import Bar

StateDict = Mapping[str, Any]

Iterate = Callable[..., Iterator[int]]
"""A function with the arguments of `iterations`, all positional."""


def _unsaved(
    total: int, what: str, _state_dict: Any, _load_state_dict: Any, start: Callable[[], None], notes: Any
) -> Iterator[int]:
    start()
    with Bar(total, "iteration", what) as bar:
        for number in range(total):
            yield number
            bar.update(*notes())


_iterate: ContextVar[Iterate] = ContextVar("iterate", default=_unsaved)


@contextmanager
def iterated_by(iterate: Iterate) -> Iterator[None]:
    """A context in which ``iterate`` runs the loops of `iterations`, in order to save them."""
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
    """Iterate over ``range(total)`` with a progress bar, resuming at the saved iteration.

    Args:
        what: the name of the method, such as EM.
        state_dict: returns the state that later iterations depend on.
        load_state_dict: restores a saved state.
        start: initializes the first iteration; not called when the loop is resumed.
        notes: returns further figures for the progress line.
    """
    return _iterate.get()(total, what, state_dict, load_state_dict, start, notes)
