"""The log of a run: on the terminal and in the run's folder."""

import contextlib
import logging
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from lmzoo.core.errors import Interrupted, UserError

log = logging.getLogger("lmzoo")


class _Console(logging.Handler):
    """Standard output, above the progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        tqdm.write(self.format(record))
        sys.stdout.flush()


class _LogFile(logging.FileHandler):
    """A log whose errors, such as a full disk, are not printed but raised."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        raise


@contextlib.contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Log to the console and to a file, where the end of an exception's way is told, too."""
    console, file = _Console(), _LogFile(path, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log.setLevel(logging.INFO)
    log.handlers[:], log.propagate = [console, file], False
    try:
        yield
    except Exception as error:
        log.handlers[:] = [file]
        log.error(reason(error))
        raise
    finally:
        log.handlers.clear()
        file.close()


def reason(error: Exception) -> str:
    """What a log says of the end of a run: a user's mistake in a line, anything else with its traceback."""
    if isinstance(error, Interrupted):
        return "interrupted"
    return f"failed: {error if isinstance(error, UserError) else ''.join(traceback.format_exception(error))}"


def log_failure(folder: Path, error: Exception) -> None:
    """Have a job of a sweep that failed say why in its own folder, where it did not come so far as to have one."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True)
        with (folder / "train.log").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {reason(error)}\n")
