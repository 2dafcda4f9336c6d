"""Write a trained n-gram model as an ARPA file: ``python -m lmzoo.export_arpa RUN FILE``."""

from pathlib import Path

from lmzoo.arpa import write_arpa
from lmzoo.commands import CommandParser, check_output, run_command
from lmzoo.corpus.vocabulary import UNK
from lmzoo.errors import UserError
from lmzoo.models.ngram import NGram
from lmzoo.run import load


def export_arpa(run_dir: Path, file: Path) -> None:
    """Write the n-gram model of a run for SRILM, KenLM and whatever else reads ARPA files.

    Args:
        file: compressed if its name ends with ``.gz``.

    Raises: UserError where the run is not of an n-gram model or the file cannot be written.
    """
    model, vocabulary = load(run_dir)
    if not isinstance(model, NGram):
        raise UserError(f"{run_dir}: only n-gram models (model=ngram) can be written as ARPA files")
    # The type beyond the vocabulary is <unk>, unless that is a word of the text like any other.
    names = [*vocabulary.words, UNK] if UNK not in vocabulary.index else vocabulary.words
    write_arpa(file, model.table, names[: model.table.vocabulary_size])


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="python -m lmzoo.export_arpa",
        description="Write a trained n-gram model as an ARPA file, which SRILM and KenLM read.",
        epilog="example: python -m lmzoo.export_arpa outputs/ptb/ngram ptb.arpa.gz",
    )
    parser.add_argument("run", type=Path, help="the run directory of an n-gram model, such as outputs/ptb/ngram")
    parser.add_argument("file", type=Path, help="the file to write; gzipped if its name ends with .gz")
    arguments = parser.parse_args()
    check_output(arguments.file)
    export_arpa(arguments.run, arguments.file)
    print(arguments.file)
    return 0


if __name__ == "__main__":
    run_command(main)
