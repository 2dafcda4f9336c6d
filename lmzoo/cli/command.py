"""What every command shares: its arguments, how it opens a run, and how it ends."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

from lmzoo.core.errors import UserError
from lmzoo.corpus import Vocabulary
from lmzoo.protocol.model import LanguageModel
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import load

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it, and after any signal on which a run was saved."""

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


def warn_if_unfinished(run: Run) -> None:
    """Say on standard error that what is about to be printed comes from weights that are still learning."""
    if unfinished := run.unfinished():
        print(unfinished, file=sys.stderr)


def require_kind(run: Run, model: LanguageModel, kind: type[Kind], needed: str) -> Kind:
    """The model as one of the kind that a command works on.

    Raises: UserError, saying what is ``needed``, for a model of another kind.
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
    if file.exists() and Run(file.parent).config_file.exists():
        raise UserError(f"{file}: is a part of the run in {file.parent}", "name another file to write")


def run_command(main: Callable[[], int]) -> None:
    """Exit with ``main``'s code: 2 after one line on stderr for a user's mistake, 130 for Ctrl-C."""
    try:
        code = main()
        sys.stdout.flush()
    except UserError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as error:  # standard output on a full disk
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"error: {error}", file=sys.stderr)
        code = 2
    sys.exit(code)


def one_line(error: Exception) -> str:
    """What an exception says, without line breaks."""
    return " ".join(str(error).split()) or type(error).__name__
