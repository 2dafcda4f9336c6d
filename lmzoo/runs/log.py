"""Logging of a run to the terminal and to a file in its folder."""

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

from lmzoo.core.errors import Interrupted, MessageFormatter, UserError, printable

log = logging.getLogger("lmzoo")


class _Console(logging.Handler):
    """A handler for standard output that prints above the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(printable(self.format(record), "\n"))
        sys.stdout.flush()


class _LogFile(logging.FileHandler):
    """A log file, opened at its first line, whose errors, such as a full disk, are raised.

    Symbolic links, which may lead out of the folder, are not followed, and pipes are not waited for.
    """

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        return os.fdopen(os.open(self.baseFilename, flags, 0o666), "a", encoding="utf-8")

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - overrides that of logging
        raise


@contextlib.contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Log to the console and to a file only. The file also records the exception that ends the run.

    After a UserError before the first line, the file is left unchanged.
    """
    level, handlers, propagate = log.level, log.handlers[:], log.propagate
    console, file = _Console(), _LogFile(path, delay=True)
    console.setFormatter(MessageFormatter())
    file.setFormatter(MessageFormatter("%(asctime)s %(message)s"))
    log.setLevel(logging.INFO)
    log.handlers[:], log.propagate = [console, file], False
    try:
        yield
    except Exception as error:
        log.handlers[:] = [file]
        if file.stream or not isinstance(error, UserError):
            with contextlib.suppress(OSError):  # do not hide the error behind a full disk
                log.error(reason(error))
        raise
    finally:
        log.setLevel(level)
        log.handlers[:], log.propagate = handlers, propagate
        file.close()


def reason(error: Exception) -> str:
    """Describe the end of a run for its log: a line for a user error, otherwise with the traceback."""
    if isinstance(error, Interrupted):
        return "interrupted"
    return f"failed: {error if isinstance(error, UserError) else ''.join(traceback.format_exception(error))}"


def log_failure(folder: Path, error: Exception) -> None:
    """Log in its own folder the failure of a job of a sweep that failed before creating that folder."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True)
        with (folder / "train.log").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {reason(error)}\n")
