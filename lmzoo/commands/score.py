"""Score each word of a text: ``lmzoo score RUN [FILE]``."""

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from lmzoo.cli.command import CommandParser, check_output, check_tokenize, open_run, text_file, warn, warn_of
from lmzoo.commands import COMMANDS
from lmzoo.core.errors import UserError, for_output, pluralize, printable_json
from lmzoo.core.files import write_output
from lmzoo.corpus import Context, Vocabulary
from lmzoo.corpus.corpus import SPLITS
from lmzoo.corpus.lines import by_line, log2_shares
from lmzoo.corpus.tokenizer import TOKENIZERS
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.protocol.abilities import Matches
from lmzoo.protocol.exchange import encoded
from lmzoo.protocol.lines import Lines, Part, file_parts, scored_groups, stream_warning
from lmzoo.protocol.model import LanguageModel, State
from lmzoo.protocol.perplexity import Score, checked, perplexity, text_logprobs
from lmzoo.protocol.prediction import at_each_token, entropy_and_rank
from lmzoo.reports.table import tab_lines
from lmzoo.runs.directory import Run
from lmzoo.runs.results import finite

UNITS = {"nats": 1.0, "bits": 1 / math.log(2), "log10": 1 / math.log(10)}
"""The factor from nats to each unit."""


def main() -> int:
    """Run the command. Returns: the exit code."""
    parser = CommandParser(
        prog="lmzoo score",
        description=f"{COMMANDS['score']}: of each word given those before it, and whether the model knows the "
        "word; a header is above, and an empty line follows each line of the text. Sums of all go to stderr, with "
        "the figures that SRILM calls ppl and ppl1.",
        epilog='examples: echo "the company said" | lmzoo score outputs/ptb/lstm; '
        "lmzoo score outputs/ptb/lstm book.txt --sums --log10",
    )
    parser.add_run("outputs/pydoc/lstm")
    parser.add_text(
        "a sentence a line, with its label and a tab before it where the run's lines have labels; or train, valid or "
        "test, a split of the run's corpus"
    )
    parser.add_argument("--context", choices=["stream", "sentence"], help="the run's own where not given")
    parser.add_argument(
        "--sums",
        action="store_true",
        help="print for each line log p, log p without unknown words, tokens, unknown words, and the line",
    )
    parser.add_argument(
        "--table",
        action="store_true",
        help="print a table with a header, in bits: sentence, position, word, known, surprisal, entropy of the next "
        "word, rank of the word, its log frequency in train, and under model=infinigram how many words of the context "
        "matched; slower, as each next word is predicted",
    )
    parser.add_argument("--json", action="store_true", help="print JSON Lines, infinity as null")
    units = parser.add_mutually_exclusive_group()
    units.add_argument("--bits", dest="unit", action="store_const", const="bits", default="nats", help="not in nats")
    units.add_argument("--log10", dest="unit", action="store_const", const="log10", help="not in nats")
    about = "write log p of every token of valid and test for compare --tokens, in nats, as numpy's savez does"
    parser.add_file("--export", about)
    parser.add_device()
    arguments = parser.parse_args()
    if arguments.export:
        return _export(arguments)
    if arguments.table and (arguments.sums or arguments.json or arguments.unit == "log10"):
        raise UserError("--table: has a form and a unit of its own", "leave out --sums, --json and --log10")
    run, model, vocabulary = open_run(arguments.run, arguments.device)
    check_tokenize(arguments, vocabulary)
    if arguments.table and vocabulary.conditions:
        raise UserError(f"--table: the lines of {run.path} have labels", "give a run without corpus.condition")
    if model.whole_sentences and not arguments.sums:
        raise UserError(f"{run.path}: has a probability of whole sentences alone, none of words", "add --sums")
    context = arguments.context or run.config()["corpus"]["context"]
    of_split = arguments.text in SPLITS
    if of_split and arguments.tokenize:
        raise UserError(f"--tokenize: {arguments.text} is a split, whose words the run has already", "leave it out")
    if of_split:
        parts = [run.split(arguments.text)]
    else:
        shown, tokenize = not sys.stdout.isatty(), TOKENIZERS[arguments.tokenize] if arguments.tokenize else None
        parts = file_parts(vocabulary, text_file(arguments), arguments.text, shown, tokenize)
    warn_of(run, vocabulary)
    warn(None if of_split else run.trained_text(text_file(arguments)))
    sums = Sums()
    if arguments.table:
        print(tab_lines(_table(run, model, vocabulary, list(parts), context, arguments.text, sums)), end="")
    else:
        written = _as_json if arguments.json else _as_sums if arguments.sums else _as_words
        for lines in scored_groups(model, vocabulary, parts, context, arguments.text):
            if not sums.lines and not arguments.json:
                print("\t".join(SUMS if arguments.sums else WORDS))
            sums.add(lines)
            for text in written(lines, arguments):
                sys.stdout.write(text)
    if context == "stream" and not (arguments.context or of_split):
        advice = stream_warning(model, sums.lines, "--context sentence")
        warn(advice and f"warning: {advice}")
    print(sums.summary("bits" if arguments.table else arguments.unit), file=sys.stderr)
    return 0


def _export(arguments: argparse.Namespace) -> int:
    """Write the scores of valid and test in the format of `lmzoo.protocol.exchange`, and print a summary."""
    form = arguments.table or arguments.sums or arguments.json or arguments.unit != "nats" or arguments.tokenize
    if form or arguments.text != "-":
        raise UserError("--export: has a form of its own, of valid and test", "leave out the text and other forms")
    check_output(arguments.export)
    if arguments.export.suffix != ".npz":
        raise UserError(f"--export {arguments.export}: does not end in .npz, by which it is known", "name such a file")
    run, model, vocabulary = open_run(arguments.run, arguments.device)
    if model.whole_sentences:
        raise UserError(f"{run.path}: has a probability of whole sentences alone, none of words", "leave out --export")
    warn_of(run, vocabulary)
    corpus, context = run.corpus(), arguments.context or run.config()["corpus"]["context"]
    splits: dict[str, tuple[Tensor, Tensor]] = {}
    for split in [name for name in ("valid", "test") if name in corpus.splits]:
        tokens = corpus.splits[split]
        logprobs = text_logprobs(model, tokens, context, corpus.conditions.get(split))
        splits[split] = tokens, checked(logprobs, run.path)
        print(f"{split}: {len(tokens):,} tokens, perplexity {Score(logprobs).perplexity:.2f} (context {context})")
    write_output(arguments.export, encoded(splits, vocabulary))
    return 0


WORDS = ("word", "logprob", "known")
SUMS = ("logprob", "logprob_of_known", "tokens", "unknown", "text")
HEADER = ("sentence", "position", "word", "known", "surprisal", "entropy", "rank", "log_frequency")


def _table(
    run: Run,
    model: LanguageModel,
    vocabulary: Vocabulary,
    parts: Sequence[Part],
    context: Context,
    where: str,
    sums: "Sums",
) -> Iterator[Sequence[str]]:
    """The header, then a row per word; sentences and positions are counted from 1."""
    read, train = torch.cat([part.tokens for part in parts]), run.split("train").tokens
    log_shares = log2_shares(train, len(vocabulary))
    order = vocabulary.text_order(read)
    tokens = read[order]  # in the order of the text
    matching = model if isinstance(model, Matches) else None

    def measure(logprobs: Tensor, following: Tensor, state: State) -> Tensor:
        figures = entropy_and_rank(logprobs, following)
        return figures if matching is None else torch.column_stack([figures, matching.matched(state)])

    expected = at_each_token(model, by_line(read, read), context, measure)[order]
    yield HEADER if matching is None else (*HEADER, "matched")
    groups = [*scored_groups(model, vocabulary, parts, context, where)]
    for group in groups:
        sums.add(group)
    scored = chain.from_iterable(group.each() for group in groups)
    texts = zip(scored, by_line(tokens, tokens), by_line(expected, tokens), strict=True)
    for number, (line, words, each) in enumerate(texts, start=1):
        columns = (0.0 - line.logprobs * UNITS["bits"], *each.T[:2], log_shares[words], *each.T[2:])
        rows = zip(line.words, line.known.tolist(), *(column.tolist() for column in columns), strict=True)
        for position, (word, known, surprisal, entropy, rank, frequency, *matched) in enumerate(rows, start=1):
            figures = f"{surprisal:.4f}", f"{entropy:.4f}", f"{rank:.0f}", f"{frequency:.4f}"
            further = (f"{n:.0f}" for n in matched)
            yield str(number), str(position), for_output(word), str(known).lower(), *figures, *further


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
    words = [*lines.words]
    logprobs, of_known, unknown = lines.sums()
    unit, texts = UNITS[arguments.unit], _shown([" ".join(line[:-1]) for line in words])
    sums = ([value * unit for value in column] for column in (logprobs, of_known))
    cells = zip(*sums, map(len, words), unknown, texts, strict=True)
    yield "%.4f\t%.4f\t%d\t%d\t%s\n" * len(words) % tuple(chain.from_iterable(cells))


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


@dataclass
class Sums:
    """Sums over a text, with and without unknown words."""

    lines: int = 0
    tokens: int = 0
    unknown: int = 0
    logprob: float = 0.0
    logprob_of_known: float = 0.0

    def add(self, lines: Lines) -> None:
        """Add lines to the sums."""
        self.lines += int((lines.tokens == EOS_ID).sum())
        self.tokens += len(lines.tokens)
        self.unknown += int((~lines.known).sum())
        self.logprob += float(lines.logprobs.sum())
        self.logprob_of_known += float(lines.logprobs[lines.known].sum())

    def summary(self, unit: str) -> str:
        """The last line of the output."""
        nats = UNITS[unit]
        impossible = self.logprob == -math.inf < self.logprob_of_known
        known = self.tokens - self.unknown
        ppl1 = f"{perplexity(self.logprob_of_known, known - self.lines):.2f}" if known > self.lines else "undefined"
        return (
            f"{pluralize(self.tokens, 'token')} in {pluralize(self.lines, 'line')}: "
            f"log p {self.logprob * nats:.4f} {unit}, perplexity {perplexity(self.logprob, self.tokens):.2f}; "
            f"without {pluralize(self.unknown, 'unknown word')}"
            f" {self.logprob_of_known * nats:.4f}, {perplexity(self.logprob_of_known, known):.2f} (ppl; ppl1, which "
            f"counts no ends of lines: {ppl1})"
            + ("; the model has no <unk>, so that unknown words have probability 0" if impossible else "")
        )
