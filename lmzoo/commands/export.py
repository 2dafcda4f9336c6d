"""Write an n-gram model, word vectors or the card of a run for others: ``lmzoo export RUN FILE``."""

from pathlib import Path
from typing import Any, get_args

from lmzoo.cli.command import CommandParser, check_output, open_run, require_kind
from lmzoo.commands import COMMANDS
from lmzoo.core.errors import UserError, printable
from lmzoo.core.files import write_output
from lmzoo.corpus.vocabulary import UNK
from lmzoo.models.ngram.arpa_file import write_arpa
from lmzoo.models.ngram.ngram import NGram
from lmzoo.reports.card import card
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import WORD_VECTORS, kind_of
from lmzoo.words.vectors.formats import VECTORS, Format, encoded, read_vectors


def export_arpa(run_dir: Path, file: Path) -> None:
    """Write the n-gram model of a run as an ARPA file.

    Args:
        run_dir: the run directory of an n-gram model.
        file: the file to write. It is compressed if its name ends with ``.gz``.

    Raises: UserError if the run is not of an n-gram model, or if the file cannot be written.
    """
    run, opened, vocabulary = open_run(run_dir, "cpu")
    model = require_kind(run, opened, NGram, "an n-gram model, such as model=ngram, or a run of lmzoo vectors")
    # The type beyond the vocabulary is <unk>. It is left out if the text has <unk> as an ordinary word.
    names = [*vocabulary.words, UNK] if UNK not in vocabulary.index else vocabulary.words
    write_arpa(file, model.table, names[: model.table.vocabulary_size])


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="lmzoo export",
        description=f"{COMMANDS['export']}. SRILM and KenLM read ARPA files; gensim and others those of word vectors. "
        "A card is Markdown that says what a run is: its data, options, figures and limits, and how to load it, with "
        "the header of Hugging Face's cards.",
        epilog="examples: lmzoo export outputs/ptb/ngram ptb.arpa.gz; "
        "lmzoo export outputs/ptb/skipgram skipgram.txt --format glove; lmzoo export outputs/ptb/lstm README.md",
    )
    parser.add_run(
        "outputs/ptb/ngram",
        "a run; for --format card any, else one of an n-gram model or of lmzoo vectors, or a file of word vectors",
    )
    parser.add_argument("file", type=Path, help="the file to write; an ARPA file is gzipped if its name ends with .gz")
    parser.add_argument(
        "--format",
        choices=["card", "arpa", *get_args(Format)],
        help="card, the default for a name that ends with .md; arpa for n-gram models; for word vectors word2vec's "
        "binary (the default) or text format, or GloVe's text",
    )
    options = parser.parse_args()
    source: Path = options.run
    check_output(options.file, inputs=[source])
    if options.format == "card" or (options.format is None and options.file.suffix == ".md"):
        write_output(options.file, card(Run(source)).encode())
        print(printable(str(options.file)))
        return 0
    is_file = source.exists() and not source.is_dir()
    of_words = is_file or (source / VECTORS).exists() or kind_of(Run(source).config()) is WORD_VECTORS
    formats: tuple[Any, ...] = get_args(Format) if of_words else ("arpa",)
    if options.format not in (None, *formats):
        kind = "holds word vectors" if of_words else "is no run of lmzoo vectors"
        raise UserError(f"--format {options.format}: {source} {kind}", f"choose {' or '.join(formats)}")
    if of_words:
        write_output(options.file, encoded(read_vectors(source), options.format or formats[0]))
    else:
        export_arpa(source, options.file)
    print(printable(str(options.file)))
    return 0
