"""Score each word of a text: ``lmzoo score RUN… [TEXT]``."""

import argparse
import math
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from lmzoo.cli.command import CommandParser, RunFolder, check_output, check_tokenize, text_file, warn, warn_of
from lmzoo.core.errors import UserError, for_output, pluralize, printable, printable_json
from lmzoo.core.files import text_ending, write_output
from lmzoo.corpus import Context, Vocabulary
from lmzoo.corpus.corpus import SPLITS
from lmzoo.corpus.tokenizer import TOKENIZERS
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.protocol.lines import (
    Lines,
    Part,
    file_parts,
    scored_groups,
    stream_warning,
    unknown_warning,
    vocabulary_warning,
)  # fmt: skip
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.perplexity import Score, perplexity
from lmzoo.reports.surprisal import BEFORE, Row, word_rows
from lmzoo.reports.table import cell, tab_lines, table_bytes
from lmzoo.runs.directory import Run
from lmzoo.runs.external import open_model, require_words
from lmzoo.runs.lineage import training_text_warning
from lmzoo.runs.listing import names
from lmzoo.runs.results import finite

UNITS = {"nats": 1.0, "bits": 1 / math.log(2), "log10": 1 / math.log(10)}
"""The factor from nats to each unit."""


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "score",
        ": of each word given those before it, and whether the word is in the "
        "vocabulary, under a header, with an empty line after each line of the text. Totals are printed to stderr, "
        "with SRILM's ppl and ppl1.",
        'examples: echo "the company said" | lmzoo score outputs/ptb/lstm; '
        "lmzoo score outputs/ptb/lstm book.txt --sums --log10; "
        "lmzoo score outputs/ptb/ngram outputs/ptb/lstm story.txt --tokenize ptb --table story.csv",
    )
    parser.add_argument("runs", action=_RunsAndText, nargs="+", metavar="RUN", help="a run; with --table, several")
    parser.add_plugins()
    parser.add_text(
        "file with one sentence per line, after its label and a tab if the run is conditional; or train, valid or "
        "test, a split of the run's corpus",
        default=argparse.SUPPRESS,
    )
    parser.add_argument("--context", choices=["stream", "sentence"], help="default: that of the run")
    parser.add_argument(
        "--sums",
        action="store_true",
        help="print per line log p, log p without unknown words, number of tokens, of unknown words, and the line",
    )
    parser.add_file(
        "--table",
        "write a row for each word and run to a .csv or .tsv file, in bits: run, sentence, "
        "position, word, known, surprisal, entropy of the next word, rank of the word, its log frequency in train; "
        "slower, as full distributions are computed",
    )
    about = "with --table, add the surprisal of the two preceding words"
    parser.add_argument("--spillover", action="store_true", help=about)
    parser.add_argument("--json", action="store_true", help="print JSON Lines, infinity as null")
    units = parser.add_mutually_exclusive_group()
    units.add_argument(
        "--bits", dest="unit", action="store_const", const="bits", default="nats", help="print bits, not nats"
    )
    units.add_argument(
        "--log10", dest="unit", action="store_const", const="log10", help="print base-10 logarithms, not nats"
    )
    parser.add_device()
    arguments = parser.parse_args()
    if arguments.spillover and not arguments.table:
        raise UserError("--spillover: needs --table", "add --table, or leave --spillover out")
    if arguments.table:
        _tabulate(arguments)
        return
    if len(arguments.runs) > 1:
        raise UserError(f"{len(arguments.runs)} runs are named", "add --table FILE, which compares them word by word")
    opened = _opened(arguments.runs[0], arguments)
    if not arguments.sums:
        require_words(opened.run, opened.model, opened.vocabulary, "add --sums")
    _warn_of_text(opened, arguments)
    sums = Sums()
    written = _as_json if arguments.json else _as_sums if arguments.sums else _as_words
    for lines in scored_groups(opened.model, opened.vocabulary, opened.parts, opened.context, arguments.text):
        if not sums.lines and not arguments.json:
            print("\t".join(SUMS if arguments.sums else WORDS))
        sums.add(lines)
        for text in written(lines, arguments):
            sys.stdout.write(text)
    _conclude(opened, sums, arguments.unit, arguments)


class _Opened(NamedTuple):
    """A run, and the text as it reads it."""

    run: Run
    model: LanguageModel
    vocabulary: Vocabulary
    context: Context
    parts: Iterable[Part]


def _opened(folder: Path, arguments: argparse.Namespace) -> _Opened:
    """Open a run and the text for it."""
    run, model, vocabulary = open_model(folder, arguments.device)
    check_tokenize(arguments, vocabulary, folder)
    context = arguments.context or run.config()["corpus"]["context"]
    if arguments.text not in SPLITS:
        shown, tokenize = not sys.stdout.isatty(), TOKENIZERS[arguments.tokenize] if arguments.tokenize else None
        parts = file_parts(vocabulary, text_file(arguments), arguments.text, shown, tokenize)
        return _Opened(run, model, vocabulary, context, parts)
    if arguments.tokenize:
        raise UserError(f"--tokenize: {arguments.text} is a split, which is tokenized already", "leave it out")
    return _Opened(run, model, vocabulary, context, [run.split(arguments.text)])


def _warn_of_text(opened: _Opened, arguments: argparse.Namespace) -> None:
    """Warn of what belongs to a run and its text, before results are printed."""
    warn_of(opened.run, opened.vocabulary)
    warn(None if arguments.text in SPLITS else training_text_warning(opened.run, text_file(arguments)))


def _conclude(opened: _Opened, sums: "Sums", unit: str, arguments: argparse.Namespace, name: str = "") -> None:
    """Warn of lines scored as one stream, and print the sums."""
    if opened.context == "stream" and not (arguments.context or arguments.text in SPLITS):
        advice = stream_warning(opened.model, sums.lines, "--context sentence")
        warn(advice and f"{name}{advice}")
    if opened.model.whole_sentences:
        tokens, unknown = sums.of_all.tokens, sums.of_all.tokens - sums.of_known.tokens
        warn(unknown_warning(unknown, tokens, f"{name}{arguments.text}", opened.model))
    print(printable(name) + sums.summary(unit), file=sys.stderr)


def _tabulate(arguments: argparse.Namespace) -> None:
    """Write the words of a text under each of the runs."""
    if arguments.sums or arguments.json or arguments.unit == "log10":
        raise UserError("--table: has a fixed format and unit", "leave out --sums, --json and --log10")
    if text_ending(arguments.table) not in (".csv", ".tsv"):
        raise UserError(f"--table {arguments.table}: ends neither in .csv nor in .tsv", "name the file to write so")
    check_output(arguments.table, inputs=[] if arguments.text in (*SPLITS, "-") else [text_file(arguments)])
    named = names(arguments.runs)
    if arguments.text == "-" and len(named) > 1:
        raise UserError(f"{len(named)} runs are named, and standard input can be read once", "name the text after them")
    each = {name: _opened(folder, arguments) for name, folder in named.items()}
    for opened in each.values():
        require_words(opened.run, opened.model, opened.vocabulary, labels=False)
        _warn_of_text(opened, arguments)
    warn(vocabulary_warning(opened.vocabulary for opened in each.values()))
    columns = [*HEADER, *(BEFORE if arguments.spillover else ())]
    rows = (map(cell, map(row.__getitem__, columns)) for row in _rows(each, arguments))
    write_output(arguments.table, table_bytes(chain([columns], rows), arguments.table))


def _rows(each: dict[str, _Opened], arguments: argparse.Namespace) -> Iterator[Row]:
    """The rows of each run with its name, followed by its sums; raise a UserError if runs read different words."""
    first: list[tuple[int, str]] = []
    for name, opened in each.items():
        sums, words = Sums(), []
        train = None
        try:
            train = opened.run.split("train").tokens
        except UserError as error:
            warn(f"log_frequency is missing: {error.problem}")
        if opened.model.open_vocabulary:
            warn(f"{opened.run.path}: has no word vocabulary, so entropy and rank are missing")
        parts = [*opened.parts]
        groups = [*scored_groups(opened.model, opened.vocabulary, parts, opened.context, arguments.text)]
        for group in groups:
            sums.add(group)
        for row in word_rows(opened.model, opened.vocabulary, parts, groups, opened.context, train):
            words.append((row["sentence"], row["word"]))
            yield {"run": name} | row
        if (first := first or words) != words:
            other = next(iter(each.values())).run.path
            raise UserError(f"{opened.run.path}: reads other words than {other}", "write a separate table")
        _conclude(opened, sums, "bits", arguments, f"{name}: " if len(each) > 1 else "")


WORDS = ("word", "logprob", "known")
SUMS = ("logprob", "logprob_of_known", "tokens", "unknown", "text")
HEADER = ("run", "sentence", "position", "word", "known", "surprisal", "entropy", "rank", "log_frequency")


class _RunsAndText(RunFolder):
    """The runs, and after them the text, if more than one argument is given."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        *runs, namespace.text = values if len(values) > 1 else [*values, "-"]
        super().__call__(parser, namespace, runs)


_ROWS = ("%s\t%.4f\tfalse\n", "%s\t%.4f\ttrue\n", "%s\t%.4f\ttrue\n\n")
"""The formats of an unknown word, a known word, and the last of a line."""


def _as_words(lines: Lines, arguments: argparse.Namespace) -> Iterator[str]:
    """Format one word per line, in the selected unit, with an empty line after each line of the text."""
    words = [*chain.from_iterable(lines.words)]
    cells: list[Any] = [None] * (2 * len(words))
    cells[::2], cells[1::2] = _shown(words), (lines.logprobs * UNITS[arguments.unit]).tolist()
    kinds = lines.known.long() + (lines.tokens == EOS_ID)
    yield "".join(map(_ROWS.__getitem__, kinds.tolist())) % tuple(cells)


def _as_sums(lines: Lines, arguments: argparse.Namespace) -> Iterator[str]:
    """Format the sums of each line, in the selected unit."""
    logprobs, of_known, tokens, unknown = lines.sums()
    texts, unit = _shown([" ".join(line[:-1]) for line in lines.words]), UNITS[arguments.unit]
    sums = ([value * unit for value in column] for column in (logprobs, of_known))
    cells = zip(*sums, tokens, unknown, texts, strict=True)
    yield "%.4f\t%.4f\t%d\t%d\t%s\n" * len(texts) % tuple(chain.from_iterable(cells))


def _shown(texts: list[str]) -> list[str]:
    """Format texts as cells of a table separated by tabs."""
    every = "".join(texts)
    if every.isprintable() and '"' not in every:
        return texts
    return [tab_lines([["", for_output(text)]])[1:-1] for text in texts]


def _as_json(lines: Lines, arguments: argparse.Namespace) -> Iterator[str]:
    """Format each line as a JSON object."""
    unit = UNITS[arguments.unit]
    for line in lines.each():
        entry: dict[str, Any] = {
            "logprob": finite(line.logprob * unit),
            "logprob_of_known": finite(line.logprob_of_known * unit),
            "tokens": len(line.words),
            "unknown": line.unknown,
        }
        if arguments.sums:
            entry["text"] = " ".join(line.words[:-1])
        else:
            each = zip(line.words, line.logprobs.tolist(), line.known.tolist(), strict=True)
            entry["words"] = [
                {"word": word, "logprob": finite(value * unit), "known": known} for word, value, known in each
            ]
        yield printable_json(entry) + "\n"


class Sums:
    """Sums over a text, with and without unknown words."""

    def __init__(self) -> None:
        self.lines, self.of_all, self.of_known = 0, Score(), Score()

    def add(self, lines: Lines) -> None:
        """Add lines to the sums."""
        self.lines += int((lines.tokens == EOS_ID).sum())
        self.of_all.add(lines.logprobs)
        self.of_known.add(lines.logprobs[lines.known])

    def summary(self, unit: str) -> str:
        """The last line of the output."""
        every, known, nats = self.of_all, self.of_known, UNITS[unit]
        impossible = every.logprob == -math.inf < known.logprob
        words = known.tokens - self.lines
        ppl1 = f"{perplexity(known.logprob, words):.2f}" if words > 0 else "undefined"
        return (
            f"{pluralize(every.tokens, 'token')} in {pluralize(self.lines, 'line')}: "
            f"log p {every.logprob * nats:.4f} {unit}, perplexity {every.perplexity:.2f}; "
            f"without {pluralize(every.tokens - known.tokens, 'unknown word')}"
            f" {known.logprob * nats:.4f}, {known.perplexity:.2f} (ppl; ppl1, which "
            f"counts no ends of lines: {ppl1})"
            + ("; the model has no <unk>, so that unknown words have probability 0" if impossible else "")
        )
