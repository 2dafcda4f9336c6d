"""What every command shares: its arguments, the way it opens a run, and the way it ends."""

import argparse
import errno
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

from lmzoo.core.errors import UserError, one_line, out_of_memory, printable
from lmzoo.corpus import Vocabulary
from lmzoo.protocol.model import LanguageModel
from lmzoo.runs.directory import FILES, Run
from lmzoo.runs.loading import load

INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells, and after any signal on which a run was saved."""

Kind = TypeVar("Kind")


class CommandParser(argparse.ArgumentParser):
    """A command line whose mistakes are UserErrors, with the arguments that commands have in common."""

    def error(self, message: str) -> NoReturn:
        raise UserError(message, "--help shows what there is")

    def add_run(self, example: str, what: str = "a run directory") -> None:
        """The run's folder, always the first argument: ``run``."""
        self.add_argument("run", type=Path, help=f"{what}, such as {example}")

    def add_device(self) -> None:
        """Where to compute: ``--device``."""
        self.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (default: auto)")


def open_run(folder: Path, device: str) -> tuple[Run, LanguageModel, Vocabulary]:
    """A run, its model and its vocabulary; a UserError as `load` has it."""
    model, vocabulary = load(folder, device)
    return Run(folder), model, vocabulary


def warn(warning: str | None) -> None:
    """Print a warning, such as `Run.unfinished`, on standard error."""
    if warning is not None:
        print(printable(warning), file=sys.stderr)


def require_kind(run: Run, model: LanguageModel, kind: type[Kind], needed: str) -> Kind:
    """The model, if it is of the kind that a command works on.

    Raises: UserError for a model of another kind. It names what is ``needed``.
    """
    if not isinstance(model, kind):
        name = run.config()["model"]["name"]
        raise UserError(f"{run.path}: is a run of model={name}, and this command needs {needed}")
    return model


def check_output(file: Path, *inputs: Path) -> None:
    """Before a command writes ``file``.

    Raises: UserError where that is one of the command's ``inputs``, or a part of a run.
    """
    if file.exists() and any(file.samefile(text) for text in inputs if text.exists()):
        raise UserError(f"{file}: is the text to be read", "name another file to write")
    if Run(file.parent).config_file.exists() and (file.name in FILES or file.name.startswith("events.out.")):
        raise UserError(f"{file}: is a part of the run in {file.parent}", "name another file to write")


def run_command(main: Callable[[], int]) -> None:
    """Exit with ``main``'s code: 2 after one line on stderr for a user's mistake, 130 for Ctrl-C."""
    _prepare_streams()
    try:
        code = main()
        sys.stdout.flush()
    except UserError as error:
        code = _refuse(one_line(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        code = 1
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF):  # as where standard output is on a full disk
            raise
        _drop_output()
        code = _refuse(one_line(error))
    except (MemoryError, RuntimeError, ValueError) as error:
        if not (reason := _foreign_mistake(error)):
            raise
        code = _refuse(reason)
    sys.exit(code)


def _refuse(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


def _foreign_mistake(error: Exception) -> str | None:
    """A message for an error that a library raises after a user's mistake; None for any other error."""
    if out_of_memory(error):
        return "not enough memory; make the model, the batch or the text smaller"
    if "null byte" in str(error):
        return "a null byte cannot be a part of a name"
    if isinstance(error, UnicodeEncodeError):
        return "an argument is not UTF-8; write it in UTF-8"
    return None


def _prepare_streams() -> None:
    """Output that is closed is dropped, and what the terminal cannot show is written as an escape."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - for the process's life
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
