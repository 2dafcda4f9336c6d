"""The start of commands and handling of Ctrl-C, with few imports, during which Ctrl-C causes a traceback."""

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator

INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells, and after any signal that stopped a run."""


def start(command: str) -> None:
    """Import the module of a command, run its ``main`` and exit with its code.

    During the slow imports, Ctrl-C ends the process at once. Later the first Ctrl-C raises KeyboardInterrupt, for an
    orderly end, and the second ends the process. If a shell made the process ignore Ctrl-C, it stays ignored.
    """
    heeded = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if heeded:
        signal.signal(signal.SIGINT, _exit)
    with _without_garbage_collection():
        main = importlib.import_module(command).main
        run_command = importlib.import_module("lmzoo.cli.ending").run_command

    def work() -> int | None:
        if heeded:
            signal.signal(signal.SIGINT, _interrupt)
        if command != "lmzoo.commands.train" and os.environ.get("WORLD_SIZE", "1") != "1":
            problem = "only lmzoo train runs in several processes"
            raise importlib.import_module("lmzoo.core.errors").UserError(problem, "start the others without torchrun")
        try:
            return main()
        except Exception:
            if signal.getsignal(signal.SIGINT) is _exit:  # Ctrl-C was pressed; Hydra converted it
                raise KeyboardInterrupt from None
            raise

    try:
        run_command(work)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt


@contextlib.contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """A context for slow imports in which Ctrl-C ends the process, since libraries may catch KeyboardInterrupt.

    Without effect in processes not started by `start`, such as notebooks, and if Ctrl-C is ignored.
    """
    if signal.getsignal(signal.SIGINT) is not _interrupt:
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        with _without_garbage_collection():
            yield
    finally:
        signal.signal(signal.SIGINT, _interrupt)


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """A context for imports without garbage collection; imported objects are exempt from it until the end."""
    before = len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > before:  # else there may be garbage of a previous run
            gc.freeze()
        gc.enable()


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGINT, _exit)
    raise KeyboardInterrupt


def _exit(*_: object) -> None:
    with contextlib.suppress(OSError):  # stderr may be closed
        os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
