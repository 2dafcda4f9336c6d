"""The end of every command: its exit code, and one line for a user error."""

import errno
import io
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from lmzoo.cli.start import INTERRUPTED
from lmzoo.core.errors import Interrupted, MessageFormatter, UserError, one_line, out_of_memory, printable, shortened
from lmzoo.core.files import protect_inputs
from lmzoo.core.memory import keep_freed_memory
from lmzoo.core.registry import plugin_error

_OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""Error numbers of the system if standard output is closed or its disk full."""


def run_command(main: Callable[[], int | None]) -> None:
    """Exit with the code of ``main``: 2 after one line on stderr for a user error, 130 after Ctrl-C or a signal."""
    _prepare_streams()
    if logging.lastResort:  # the handler of what modules log outside of training
        logging.lastResort.setFormatter(MessageFormatter())
    keep_freed_memory()
    code, message = 0, None
    try:
        with protect_inputs():
            code = main() or 0
        sys.stdout.flush()
    except UserError as error:
        message = one_line(error)
    except (KeyboardInterrupt, Interrupted) as stop:
        saved = ": everything is saved; the same command resumes from here" if isinstance(stop, Interrupted) else ""
        print(f"interrupted{saved}", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        code = 1
    except Exception as error:
        if not (message := _users_mistake(error)):
            raise
        if isinstance(error, OSError) and error.errno in _OUTPUT_LOST:
            _drop_output()
    if message:
        print(f"error: {message}", file=sys.stderr)
        code = 2
    sys.exit(code)


def _users_mistake(error: Exception) -> str | None:
    """A message for an exception of a library or plug-in due to a user's mistake; None for any other exception."""
    if out_of_memory(error):
        return "not enough memory; make the model, the batch or the text smaller"
    if isinstance(error, OSError) and error.errno in _OUTPUT_LOST:
        where = "standard output" if error.filename is None else printable(str(error.filename))
        return f"{where}: {error.strerror}; make room, or write elsewhere"
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return f"{printable(shortened(error.filename))}: the name is too long; choose a shorter one"
    if isinstance(error, PermissionError) and error.filename is not None:
        return f"{printable(shortened(str(error.filename)))}: {error.strerror}; ask for the right to use it"
    if "embedded null" in str(error):  # byte or character, depending on the function
        return "a null byte cannot be a part of a name"
    if isinstance(error, UnicodeEncodeError):
        return "an argument is not UTF-8; write it in UTF-8"
    return one_line(mistake) if (mistake := plugin_error(error)) else None


def _prepare_streams() -> None:
    """Discard output if a stream is closed, and escape characters that it cannot encode."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - never closed
        elif isinstance(stream, io.TextIOWrapper):
            if isinstance(stream.buffer, io.RawIOBase):  # PYTHONUNBUFFERED, which would ignore partial writes
                setattr(sys, name, stream := os.fdopen(stream.fileno(), "w", 1, stream.encoding, closefd=False))
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
