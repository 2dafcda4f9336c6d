"""Write a trained n-gram model as an ARPA file: ``lmzoo export_arpa RUN FILE``."""

from pathlib import Path

from lmzoo.cli.command import CommandParser, check_output, open_run, require_kind
from lmzoo.commands import COMMANDS
from lmzoo.core.errors import printable
from lmzoo.corpus.vocabulary import UNK
from lmzoo.models.ngram.arpa_file import write_arpa
from lmzoo.models.ngram.ngram import NGram


def export_arpa(run_dir: Path, file: Path) -> None:
    """Write the n-gram model of a run as an ARPA file.

    Args:
        run_dir: the run directory of an n-gram model.
        file: the file to write. It is compressed if its name ends with ``.gz``.

    Raises: UserError if the run is not of an n-gram model, or if the file cannot be written.
    """
    run, opened, vocabulary = open_run(run_dir, "cpu")
    model = require_kind(run, opened, NGram, "an n-gram model, such as model=ngram")
    # The type beyond the vocabulary is <unk>. It is left out if the text has <unk> as an ordinary word.
    names = [*vocabulary.words, UNK] if UNK not in vocabulary.index else vocabulary.words
    write_arpa(file, model.table, names[: model.table.vocabulary_size])


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="lmzoo export_arpa",
        description=f"{COMMANDS['export_arpa']}, which SRILM and KenLM read.",
        epilog="example: lmzoo export_arpa outputs/ptb/ngram ptb.arpa.gz",
    )
    parser.add_run("outputs/ptb/ngram", "the run directory of an n-gram model")
    parser.add_argument("file", type=Path, help="the file to write; gzipped if its name ends with .gz")
    arguments = parser.parse_args()
    check_output(arguments.file)
    export_arpa(arguments.run, arguments.file)
    print(printable(str(arguments.file)))
    return 0
