"""Deferral of SIGINT and SIGTERM during training until everything can be saved."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def stop_signals(waits: Callable[[], bool] = lambda: True) -> Iterator[Callable[[], bool]]:
    """A context in which SIGINT and SIGTERM only set a flag while ``waits()``. Yields a function that reads the flag.

    A second signal acts as outside the context. Outside the main thread, which handles signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    received = False
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def record(number: int, _: Any) -> None:
        nonlocal received
        signal.signal(number, before[number])
        if waits():
            received = True
        else:
            signal.raise_signal(number)

    for number in before:
        signal.signal(number, record)
    try:
        yield lambda: received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
