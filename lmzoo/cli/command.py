"""Arguments common to several commands, and loading of runs."""

import argparse
import contextlib
import os
import re
import sys
import typing
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from lmzoo.cli import COMMANDS
from lmzoo.core.errors import UserError, printable, shortened
from lmzoo.core.files import destination
from lmzoo.core.options import unfit
from lmzoo.core.plugins import load_plugins, split_names
from lmzoo.corpus import Vocabulary
from lmzoo.corpus.form import require_tokenizer
from lmzoo.corpus.tokenizer import TOKENIZERS
from lmzoo.protocol.model import LanguageModel
from lmzoo.reports.charts import picture_format
from lmzoo.runs.directory import FILES, Run
from lmzoo.runs.listing import find

Wanted = TypeVar("Wanted")


class _Plugins(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        load_plugins(split_names(values))


class RunFolder(argparse.Action):
    """An argument of one or more runs, resolved by `lmzoo.runs.listing.find`; resolved names are printed."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        given = [values] if isinstance(values, str) else values
        folders = [find(name) for name in given]
        for name, folder in zip(given, folders, strict=True):
            inform(None if folder == Path(name) else f"{name} is {folder}")
        setattr(namespace, self.dest, folders[0] if isinstance(values, str) else folders)


class CommandParser(argparse.ArgumentParser):
    """A command-line parser that raises UserErrors, with the arguments common to several commands.

    Args:
        command: one of `COMMANDS`; None for a script, whose options are those of `argparse`.
        about: the help after the description of the command.
        examples: the end of the help.
    """

    def __init__(self, command: str | None = None, about: str = "", examples: str = "", **options: Any):
        if command:
            options = {"prog": f"lmzoo {command}", "description": COMMANDS[command] + about, "epilog": examples}
        super().__init__(**options)

    parse_args = argparse.ArgumentParser.parse_intermixed_args  # pyright: ignore[reportAssignmentType]

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (\S+): (.*) must be ", r"\1 \2: must be ", message, flags=re.DOTALL)
        advice = "see --help"
        if unknown := re.match("unrecognized arguments: (-*)([^ =]*)", message):
            options = [name.lstrip("-") for name in self._option_string_actions]
            near = get_close_matches(unknown[2], options)
            if taking := [name for name in (near if unknown[1] else ("prompt", "sentence")) if name in options]:
                advice = f"did you mean '--{taking[0]}'?" if unknown[1] else f"is it text for --{taking[0]}?"
        raise UserError(message, advice)

    def add_run(self, example: str, what: str = "a run directory or an ARPA file") -> None:
        """Add the run directory, always the first argument: ``run``."""
        shorter = "or a prefix of its path, or LATEST"
        self.add_argument("run", action=RunFolder, help=f"{what}, such as {example}; {shorter}")
        self.add_plugins()

    def add_plugins(self) -> None:
        """Add ``--plugins``, modules that runs need, which are imported."""
        self.add_argument("--plugins", action=_Plugins, metavar="NAME,…", help="plug-in modules of the run")

    def add_device(self) -> None:
        """Add ``--device``, the device for computation."""
        self.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (default: auto)")

    def add_number(self, option: str, annotation: Any, about: str, default: float | None = None) -> None:
        """Add a number within the bounds of an annotation such as `Size`; its help shows its default, if any."""
        about = about if default is None else f"{about} ({default})"
        self.add_argument(option, type=bounded(annotation), default=default, help=about)

    def add_file(self, option: str, about: str) -> None:
        """Add an input or output file."""
        self.add_argument(option, type=Path, metavar="FILE", help=about)

    def add_text(self, what: str, default: str = "-") -> None:
        """Add ``text``, for `text_file`, by default standard input, and ``--tokenize``."""
        self.add_argument("text", nargs="?", default=default, help=f"{what}; -: standard input (default)")
        self.add_tokenize()

    def add_tokenize(self) -> None:
        """Add ``--tokenize``, the tokenizer for `tokenized`."""
        self.add_argument(
            "--tokenize",
            choices=sorted(TOKENIZERS),
            help="tokenizer for raw text; ptb: small letters without punctuation, as language models read Penn "
            "Treebank; treebank: keeps both, as the annotated Penn Treebank does (default: words are separated by "
            "spaces)",
        )


def bounded(annotation: Any) -> Callable[[str], Any]:
    """The argparse type of a number with the bounds of an annotation such as `Size`."""

    def parse(text: str) -> Any:
        number: Any = text
        with contextlib.suppress(ValueError):
            number = typing.get_args(annotation)[0](text)
        if wrong := unfit(number, annotation):
            raise argparse.ArgumentTypeError(f"{shortened(text)} must be {wrong}")
        return number

    return parse


def check_tokenize(arguments: argparse.Namespace, vocabulary: Vocabulary, run: Path) -> None:
    """Raise a UserError if ``--tokenize`` is set for a run that tokenizes text itself."""
    if arguments.tokenize:
        require_tokenizer(arguments.tokenize, vocabulary.form, run)


def tokenized(arguments: argparse.Namespace, lines: Sequence[str]) -> list[str]:
    """Tokenize lines if ``--tokenize`` is set."""
    return list(map(TOKENIZERS[arguments.tokenize], lines)) if arguments.tokenize else list(lines)


def text_file(arguments: argparse.Namespace) -> Path:
    """The path of the argument ``text``; raise a UserError if it looks like the text itself."""
    if len(arguments.text.split()) > 1 and not os.path.exists(arguments.text):  # noqa: PTH110 - for names of any length
        problem = f"'{shortened(arguments.text)}': no such file"
        raise UserError(problem, "pass text through a pipe: echo 'one line' | lmzoo …")
    return Path("/dev/stdin" if arguments.text == "-" else arguments.text)


def warn_of(run: Run, vocabulary: Vocabulary) -> None:
    """Warn if a run is unfinished or reads lines backwards, before results are printed in the order of the text."""
    warn(run.unfinished())
    if vocabulary.form.reverse:
        warn(f"{run.path}: reads lines backwards (corpus.reverse=true), so each word is predicted from those after it")


def warn(warning: str | None) -> None:
    """Print a warning, such as `Run.unfinished`, to standard error."""
    inform(warning and f"warning: {warning}")


def inform(line: str | None) -> None:
    """Print a line that is no result, such as what has been read, to standard error."""
    if line is not None:
        print(printable(line), file=sys.stderr)


def require_kind(run: Run, model: LanguageModel, kind: type[Wanted] | tuple[type[Wanted], ...], needed: str) -> Wanted:
    """Return the model if it is of this kind; otherwise raise a UserError with the ``needed`` kind."""
    if not isinstance(model, kind):
        name = run.config()["model"]["name"]
        raise UserError(f"{run.path}: is a run of model={name}, and this command needs {needed}")
    return model


def check_output(*files: Path | None, inputs: Iterable[Path] = (), picture: Path | None = None) -> None:
    """Validate output files, None for unused ones, before the computation whose results they will hold.

    Raises: UserError as `picture_format` does, and if a file is a folder or in none, has the suffix of an unsupported
        compression, is one of the ``inputs`` or another output, part of a run, or behind a link inside a run.
    """
    reserved = {destination(text): "is the text to be read" for text in inputs}
    if picture:
        picture_format(picture)
    for file in filter(None, (picture, *files)):
        if file.is_dir() or not file.parent.is_dir():
            raise UserError(f"{file}: cannot be written ({'is a folder' if file.is_dir() else 'no such folder'})")
        if file.suffix.lower() in (".zst", ".xz", ".bz2", ".zip"):
            raise UserError(f"{file}: its suffix stands for an unsupported compression", "let it end in .gz")
        path = destination(file)
        same = [text for text in reserved if path == text or (file.is_file() and text.exists() and file.samefile(text))]
        if same:
            raise UserError(f"{file}: {reserved[same[0]]}", "name another file to write")
        if file.is_file() or not file.exists():  # a device may be given twice
            reserved[path] = "is to be written twice"
        if Run(path.parent).config_file.exists() and (path.name in FILES or path.name.startswith("events.out.")):
            raise UserError(f"{file}: is a part of the run in {path.parent}", "name another file to write")
        for link in filter(Path.is_symlink, (file.absolute(), *file.absolute().parents)):
            if any(Run(folder).config_file.exists() for folder in link.parents):
                raise UserError(f"{link}: is a symbolic link inside a run, which is not allowed", "delete the link")
