"""The log of a run: on the terminal and in the run's folder."""

import contextlib
import logging
import os
import sys
import time
import traceback
from collections.abc import Iterator
from io import TextIOWrapper
from pathlib import Path

from tqdm import tqdm

from lmzoo.core.errors import Interrupted, UserError, printable

log = logging.getLogger("lmzoo")


class _Console(logging.Handler):
    """Standard output, above the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(printable(self.format(record), "\n"))
        sys.stdout.flush()


class _LogFile(logging.FileHandler):
    """A log whose errors, such as a full disk, are not printed but raised. It is opened for its first line.

    A symbolic link is not followed, as it would lead out of the run's folder. Nor is the reader of a pipe waited for.
    """

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        return os.fdopen(os.open(self.baseFilename, flags, 0o666), "a", encoding="utf-8")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        raise


@contextlib.contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Log to the console and to a file alone. The file also tells of the exception that ends the run.

    Where a UserError comes before the first line, nothing has been done, and the file stays as it was.
    """
    level, handlers, propagate = log.level, log.handlers[:], log.propagate
    console, file = _Console(), _LogFile(path, delay=True)
    file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.setLevel(logging.INFO)
    log.handlers[:], log.propagate = [console, file], False
    try:
        yield
    except Exception as error:
        log.handlers[:] = [file]
        if file.stream or not isinstance(error, UserError):
            with contextlib.suppress(OSError):  # a full disk must not hide the error
                log.error(reason(error))
        raise
    finally:
        log.setLevel(level)
        log.handlers[:], log.propagate = handlers, propagate
        file.close()


def reason(error: Exception) -> str:
    """How a run ended, for its log: a user's mistake in a line, anything else with its traceback."""
    if isinstance(error, Interrupted):
        return "interrupted"
    return f"failed: {error if isinstance(error, UserError) else ''.join(traceback.format_exception(error))}"


def log_failure(folder: Path, error: Exception) -> None:
    """Log in its own folder why a job of a sweep failed before it had made that folder."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True)
        with (folder / "train.log").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {reason(error)}\n")
