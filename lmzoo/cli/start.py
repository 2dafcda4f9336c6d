"""The start of a command, and Ctrl-C from then on. Few imports: Ctrl-C while they last would be a traceback."""

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator

INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells, and after any signal on which a run was saved."""


def start(command: str) -> None:
    """Import the module of a command, run its ``main`` and exit with its code.

    Its imports take long. Ctrl-C while they last ends the process at once. Later the first Ctrl-C raises
    KeyboardInterrupt, so that nothing half done is left, and the second ends the process. Where a shell has told it to
    ignore Ctrl-C, a command does.
    """
    heeded = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if heeded:
        signal.signal(signal.SIGINT, _leave)
    with _staying():
        main = importlib.import_module(command).main
        run_command = importlib.import_module("lmzoo.cli.ending").run_command

    def work() -> int:
        if heeded:
            signal.signal(signal.SIGINT, _interrupt)
        if command != "lmzoo.commands.train" and os.environ.get("WORLD_SIZE", "1") != "1":
            problem = "lmzoo train alone runs in several processes"
            raise importlib.import_module("lmzoo.core.errors").UserError(problem, "start the others without torchrun")
        try:
            return main()
        except Exception:
            if signal.getsignal(signal.SIGINT) is _leave:  # Ctrl-C came; Hydra has made it an error of its own
                raise KeyboardInterrupt from None
            raise

    try:
        run_command(work)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to be stopped


@contextlib.contextmanager
def leaving_at_once() -> Iterator[None]:
    """A context for imports that take long: Ctrl-C ends a command there, since libraries may catch an exception.

    Nothing changes in a process that `start` has not started, such as a notebook, nor where Ctrl-C is ignored.
    """
    if signal.getsignal(signal.SIGINT) is not _interrupt:
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        with _staying():
            yield
    finally:
        signal.signal(signal.SIGINT, _interrupt)


@contextlib.contextmanager
def _staying() -> Iterator[None]:
    """A context for imports: what comes with modules stays, so Python looks for no garbage in it, even at the end."""
    before = len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > before:  # else there may be garbage of a run before this one
            gc.freeze()
        gc.enable()


def _interrupt(*_: object) -> None:
    signal.signal(signal.SIGINT, _leave)
    raise KeyboardInterrupt


def _leave(*_: object) -> None:
    with contextlib.suppress(OSError):  # a closed stderr
        os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
