"""SIGINT and SIGTERM while a model learns: the first one is noted, the second one acts."""

import os
import signal
import threading
from typing import Any

import pytest

from lmzoo.training.loop import stop_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_is_not_held_back(number: int):
    def handler(*_: Any) -> None:
        raise InterruptedError

    before = signal.signal(number, handler)
    try:
        with stop_signals() as stopped:
            assert not stopped()
            os.kill(os.getpid(), number)
            assert stopped()
            with pytest.raises(InterruptedError):
                os.kill(os.getpid(), number)
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


def test_handlers_are_as_before_where_no_signal_came():
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    with stop_signals():
        assert not set(map(signal.getsignal, numbers)) & set(before)
    assert [signal.getsignal(number) for number in numbers] == before


def test_other_threads_than_the_main_one_have_no_signals():
    found = []

    def work() -> None:
        with stop_signals() as stopped:
            found.append(stopped())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [False]
