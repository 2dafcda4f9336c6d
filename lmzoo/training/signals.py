"""SIGINT and SIGTERM during training: noted, and acted on where everything can be saved."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """While the context lasts SIGINT and SIGTERM only set a flag, which the yielded function reads.

    A second signal acts as if there were no context.
    """
    received = False
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, _: Any) -> None:
        nonlocal received
        received = True
        signal.signal(number, before[number])

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
