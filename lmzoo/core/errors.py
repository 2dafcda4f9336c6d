"""Errors shown to users, and formatting of messages."""

import contextlib
import json
import logging
import re
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Any

LONGEST_MESSAGE = 290
"""The maximum length of an error message in characters."""


class MessageFormatter(logging.Formatter):
    """Begin warnings with ``warning:``."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - overrides that of logging
        record.message = "warning: " * (record.levelno == logging.WARNING) + record.message
        return super().formatMessage(record)


class UserError(ValueError):
    """A mistake that the user can correct, in one line: what is wrong, where, and what to do.

    Commands print it after ``error:`` and exit with code 2, without a traceback.

    Attributes:
        problem: what is wrong, and where.
        advice: what to do, if the problem does not say so; callers that raise the problem again may replace it.
    """

    def __init__(self, problem: str, advice: str | None = None):
        super().__init__(problem if advice is None else f"{problem}; {advice}")
        self.problem = problem
        self.advice = advice


@contextlib.contextmanager
def error_prefix(option: str, advice: str | None = None) -> Iterator[None]:
    """A context in which errors about a file or run are prefixed by its option, with other ``advice`` if given."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{option}: {error.problem}", advice or error.advice) from None


def format_value(value: object) -> str:
    """Format a value as on a command line, not as in Python: null, true, or as it is."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def pluralize(number: int, noun: str) -> str:
    """``1 line`` or ``2,000 lines``."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def shortened(value: object, length: int = 80) -> str:
    """Shorten a value for a message to ``length`` characters."""
    try:
        text = format_value(value)
    except ValueError:  # Python refuses to format so many digits
        return "a number of very many digits"
    return text if len(text) <= length else f"{text[: length - 1]}…"


def nearest(word: str, names: Iterable[str]) -> str:
    """A suggestion for a misspelt name: ``did you mean 'x'?``, or the list of names."""
    names = sorted(names)
    folded = {name.casefold(): name for name in names}
    close = get_close_matches(word.casefold(), folded, n=1, cutoff=0.5)
    return f"did you mean '{folded[close[0]]}'?" if close else f"choose from: {', '.join(names) or 'none'}"


class Interrupted(Exception):  # noqa: N818 - not an error
    """SIGINT or SIGTERM stopped training after a checkpoint was saved."""


def out_of_memory(error: BaseException) -> bool:
    """Whether Python or an allocator of PyTorch, for CPU or GPU, ran out of memory."""
    phrases = ("out of memory", "can't allocate memory", "calculation overflowed")
    return isinstance(error, MemoryError) or any(phrase in str(error) for phrase in phrases)


_LIBRARIES = (*{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")},
              str(Path(__file__).parents[1]))  # fmt: skip
"""The folders of Python, installed packages and this package."""


def error_location(error: BaseException, packages: Collection[str] = ()) -> str:
    """The location of an error in user code, the innermost frame outside libraries: ``FILE:LINE: KIND: message``.

    Installed ``packages`` are user code, too.
    """
    frames = [(frame.f_code.co_filename, line, package_of(frame)) for frame, line in walk_tb(error.__traceback__)]
    frames = [frame for frame in frames if not frame[0].startswith("<")]
    outside = [frame for frame in frames if frame[2] in packages or not frame[0].startswith(_LIBRARIES)] or frames
    file, line, _ = outside[-1] if outside else (None, None, None)
    message = str(error)
    if isinstance(error, SyntaxError) and error.filename:
        file, line, message = error.filename, error.lineno, error.msg
    kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
    return f"{code_location(file, line)}: {kind}{message}" if file else f"{kind}{message}"


def package_of(frame: FrameType) -> str:
    """The top-level package of the code of a frame."""
    return frame.f_globals.get("__name__", "").partition(".")[0]


def code_location(file: str, line: int | None) -> str:
    """``FILE:LINE``, relative to the current folder if the file is below it."""
    return f"{Path(file).relative_to(Path.cwd()) if Path(file).is_relative_to(Path.cwd()) else file}:{line}"


_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # colours, cursor movement, window title
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # text direction
    "\u2028\u2029\ud800-\udfff]"  # line separators; surrogates
)
"""Characters that control a terminal."""


def printable(text: str, kept: str = "") -> str:
    """Escape the characters in a text that control a terminal or its text direction, except those in ``kept``."""
    return _CONTROLS.sub(lambda c: c[0] if c[0] in kept else c[0].encode("unicode_escape").decode(), text)


def for_output(text: str, kept: str = "") -> str:
    """Text for standard output: `printable` on a terminal, unchanged in files and pipes, which programs read."""
    return printable(text, kept) if sys.stdout.isatty() else text


def printable_json(value: Any) -> str:
    """Format JSON in one line, with escapes for characters that control a terminal."""
    return _CONTROLS.sub(lambda c: f"\\u{ord(c[0]):04x}", json.dumps(value, ensure_ascii=False))


def one_line(error: BaseException) -> str:
    """The message of an exception in one line, with an ellipsis in the middle beyond `LONGEST_MESSAGE`."""
    text, half = printable(" ".join(str(error).split())) or type(error).__name__, LONGEST_MESSAGE // 2
    return text if len(text) <= LONGEST_MESSAGE else f"{text[:half]} … {text[3 - half :]}"
