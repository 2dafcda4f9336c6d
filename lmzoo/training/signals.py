"""SIGINT and SIGTERM during training are noted, and acted on when everything can be saved."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def stop_signals() -> Iterator[Callable[[], bool]]:
    """A context in which SIGINT and SIGTERM only set a flag. The yielded function reads the flag.

    A second signal acts as it does outside the context. Signals are the main thread's: in another nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
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
