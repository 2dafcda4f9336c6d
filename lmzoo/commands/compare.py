"""Compare runs: ``lmzoo compare RUN…``; two models word by word: ``--tokens A B``; several on a ``--sentence``."""

import glob
import itertools
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from lmzoo.cli.command import CommandParser, RunFolder, bounded, check_output, open_run, warn
from lmzoo.commands import COMMANDS
from lmzoo.core.errors import UserError, named_by, printable
from lmzoo.core.files import write_output
from lmzoo.core.options import Seed
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.corpus.corpus import SPLITS
from lmzoo.models.combined.mixture import mixture_weights
from lmzoo.protocol.difference import FrequencyBand, bootstrap, by_frequency, by_word
from lmzoo.protocol.exchange import read_logprobs
from lmzoo.protocol.lines import known_words, scored
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.perplexity import Score, checked, text_logprobs
from lmzoo.reports.comparison import as_csv, as_json, as_text, collect, groups, number
from lmzoo.reports.plot import picture
from lmzoo.reports.words import Surprisals, picture_of_bands, picture_of_sentence
from lmzoo.runs.directory import Run
from lmzoo.runs.kinds import LABELS, LANGUAGE_MODEL
from lmzoo.runs.listing import OUTPUTS, below, find

SAMPLES = 1000
"""Texts that the bootstrap draws."""

SHOWN = 10
"""Words on which each of two models is better."""


def matching(patterns: list[str]) -> list[Path]:
    """The runs that names or patterns stand for, one itself or all below a folder; a UserError for none."""
    runs: dict[Path, None] = {}
    for pattern in patterns:
        folders = [] if Path(pattern).exists() else sorted(glob.glob(pattern))  # noqa: PTH207 - may be absolute
        matches = [run for folder in folders or [find(pattern)] for run in below(Path(folder))]
        if not matches:
            raise UserError(f"{pattern}: no run is there", "name folders of runs, or a folder above them")
        runs |= dict.fromkeys(matches)
    return list(runs)


def compare_tokens(
    folders: list[Path], split: str, device: str, seed: int, plot: Path | None = None, mixture: bool = False
) -> str:
    """Which of two runs predicts a split better, how sure that is, and on which words they differ most.

    Args:
        folders: two runs, or one and a file of log p, as `read_logprobs` has it.
        plot: where the difference is drawn by the frequency of the words.
        mixture: whether to tell the perplexity of the mixture per token, whose weights EM finds on valid.

    Raises: UserError where they are of different texts or words, or one of them gives a token no probability; and as
        `read_logprobs` does.
    """
    opened = [None if folder.is_file() else _opened(folder, device) for folder in folders]
    runs = [of_run for of_run in opened if of_run is not None]
    if not runs:
        raise UserError(
            f"--tokens: {folders[0]} and {folders[1]} are two files", "give a run of that text beside a file"
        )
    first, _, vocabulary, text = runs[0]
    tokens = text.tokens(split)
    for (second, _, words, other), part in itertools.product(runs[1:], [split, "valid"][: 1 + mixture]):
        if text.sha256.get(part) != other.sha256.get(part) or vocabulary.words != words.words:
            problem = f"{second.path}: is of another text, or other words, than {first.path}"
            raise UserError(problem, "name two of a text")
        if len(text.tokens(part)) != len(other.tokens(part)):
            raise UserError(
                f"{second.path}: reads more or less of {part} than {first.path}",
                "name two with the same trainer.first_tokens",
            )
    logprobs, valid, lines = [], [], []
    for path, of_run in zip(folders, opened, strict=True):
        read, beside = partial(read_logprobs, path, vocabulary=vocabulary), ""
        if of_run is not None:
            run, model, _, corpus = of_run
            warn(run.unfinished())
            read = partial(_scored, run, model, corpus)
        logprobs.append(read(split, tokens))
        if mixture:
            valid.append(read("valid", text.tokens("valid")))
        if of_run is not None:
            run, model, _, _ = of_run
            beside = f" (context {run.config()['corpus']['context']})"
            is_known = known_words(model, text.vocabulary)[tokens]
            if (unknown := int((~is_known).sum())) and not model.whole_sentences:
                of_known = Score(logprobs[-1][is_known]).perplexity
                beside += f", without its {unknown:,} unknown words {of_known:.2f}"
        measured = Score(logprobs[-1])
        if measured.impossible:
            raise UserError(f"{path}: {measured.impossible:,} tokens of {split} have probability 0", "smooth it")
        lines.append(f"{'AB'[len(lines)]}  {measured.perplexity:.2f}  {path}{beside}")
    a, b = logprobs
    interval = bootstrap(a, b, tokens, SAMPLES, seed)
    lines.append(
        f"perplexity of A minus that of B on {split}: {interval.difference:+.2f}, 95% interval {interval.low:+.2f} to "
        f"{interval.high:+.2f} ({SAMPLES} texts drawn from {int((tokens == 0).sum()):,} sentences"
        f"{f' in blocks of {interval.block}' if interval.block > 1 else ''}, seed {seed})"
    )
    whole_sentences = any(model.whole_sentences for _, model, _, _ in runs)
    if mixture and whole_sentences:
        problem = "--mixture: one of the runs has a probability of whole sentences alone"
        raise UserError(problem, "train model=mixture model.per=sentence")
    if mixture:
        weights = mixture_weights(torch.stack(valid, 1))
        of_both = Score((torch.stack(logprobs, 1) + weights.log()).logsumexp(1)).perplexity
        of_a, of_b = weights.tolist()
        lines.append(f"mixture  {of_both:.2f}  of {of_a:.4f} A and {of_b:.4f} B, weights by EM on valid")
    if whole_sentences:
        if plot:
            problem = f"--plot {plot}: one of the runs has a probability of whole sentences alone"
            raise UserError(problem, "leave it out")
        return "\n".join(lines)
    frequency = text.train.bincount(minlength=len(text.vocabulary))
    bands = by_frequency(a, b, tokens, frequency, SAMPLES, seed)
    if plot:
        write_output(plot, picture_of_bands(bands, str(folders[0]), str(folders[1]), f"{text.name}, {split}", plot))
    return "\n".join(lines + _frequencies(bands) + _words(a, b, tokens, text.vocabulary.words))


def _opened(folder: Path, device: str) -> tuple[Run, LanguageModel, Vocabulary, Corpus]:
    """A run, its model and vocabulary, and its text."""
    run, model, vocabulary = open_run(folder, device)
    return run, model, vocabulary, run.corpus()


def _scored(run: Run, model: LanguageModel, corpus: Corpus, split: str, tokens: Tensor) -> Tensor:
    """(N,) float64 log p of a split under a run."""
    context = run.config()["corpus"]["context"]
    return checked(text_logprobs(model, tokens, context, corpus.conditions.get(split)), run.path).cpu().double()


def _frequencies(bands: Sequence[FrequencyBand]) -> list[str]:
    """How many nats a token A gains on words that are about as frequent, with the 95% interval."""
    lines = ["\nby occurrences in train, A gains", f"{'a token':>10} {'95% interval':>18} {'count':>9}  occurrences"]
    for band in bands:
        interval = f"{band.low:+.3f} to {band.high:+.3f}"
        end = f" to {band.end - 1:,.0f}" if band.end < math.inf else "+"
        lines.append(f"{band.gain:+10.3f} {interval:>18} {band.tokens:9,}  {band.least:,}{end}")
    return lines


def compare_sentence(folders: list[Path], sentence: str, device: str, plot: Path | None = None) -> str:
    """A table of the surprisal of each word of a sentence, in bits, with a column for each run; log p in the last row.

    Args:
        plot: where it is drawn.

    Raises: UserError for a model that has no probability of words, or whose text has other forms of words.
    """
    read: list[Surprisals] = []
    words: list[str] = []
    for folder in folders:
        run, model, vocabulary = open_run(folder, device)
        warn(run.unfinished())
        if model.whole_sentences:
            raise UserError(f"{run.path}: has a probability of whole sentences alone, none of words", "leave it out")
        with named_by(str(run.path)):
            line = next(scored(model, vocabulary, [sentence], "sentence", "--sentence"))
        if words and line.words != words:
            raise UserError(f"{run.path}: cuts the sentence into other words than {folders[0]}", "compare it by itself")
        words = line.words
        read.append(Surprisals(str(folder), (-line.logprobs / math.log(2)).tolist(), line.known.tolist()))
    if plot:
        write_output(plot, picture_of_sentence(words, read, plot))
    lines = [f"{number}  {model.name}" for number, model in enumerate(read, 1)]
    width = max(map(len, words))
    lines.append("surprisal in bits; of * the model reads <unk>")
    lines.append(" " * width + "".join(f"{number:>9}" for number in range(1, len(read) + 1)))
    for place, word in enumerate(words):
        cells = (f"{model.bits[place]:8.2f}{' ' if model.known[place] else '*'}" for model in read)
        lines.append(f"{word:{width}}" + "".join(cells))
    lines.append(f"{'all':{width}}" + "".join(f"{sum(model.bits):8.2f} " for model in read))
    return "\n".join(lines)


def _words(a: Tensor, b: Tensor, tokens: Tensor, words: list[str]) -> list[str]:
    """The words on which either model gains most, in nats over the whole text."""
    counts, gains = by_word(a, b, tokens, len(words))
    lines = []
    for name, signed in (("A", gains), ("B", -gains)):
        lines += [f"\n{name} is better on", f"{'nats':>10} {'count':>9} {'a token':>9}  word"]
        for word in signed.argsort(descending=True, stable=True)[:SHOWN].tolist():
            if signed[word] > 0:
                nats, count = float(signed[word]), int(counts[word])
                lines.append(f"{nats:10.1f} {count:9,} {nats / count:9.3f}  {words[word]}")
    return lines


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="lmzoo compare",
        description=f"{COMMANDS['compare']}. The table has the options in which finished runs differ, and their "
        "figures, by valid perplexity. Runs of other texts or contexts have a table of their own. Runs alike but for "
        "the seed are one row, with the mean and the standard deviation. With --tokens, two models are compared word "
        "by word; with --sentence, several on a sentence.",
        epilog="examples: lmzoo compare; lmzoo compare 'outputs/ptb/lstm*' --csv lstm.csv; "
        "lmzoo compare --tokens outputs/ptb/lstm outputs/ptb/gru --split valid",
    )
    parser.add_argument("runs", nargs="*", help="runs, patterns, or folders above runs (default: outputs)")
    parser.add_argument("--seeds", action="store_true", help="list the runs of each seed")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a line for each row, with all its options")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON")
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw perplexity by epochs, time and parameters; with --tokens the difference by the frequency of words; "
        "with --sentence the surprisal of each word",
    )
    parser.add_argument("--sentence", metavar="TEXT", help="the surprisal of each word of it under each of the runs")
    parser.add_argument(
        "--tokens",
        nargs=2,
        action=RunFolder,
        metavar=("A", "B"),
        help="on which words two runs differ most, or a run and a file of lmzoo score --export",
    )
    parser.add_argument(
        "--mixture", action="store_true", help="with --tokens: the perplexity of both mixed by weights found on valid"
    )
    parser.add_argument("--split", choices=SPLITS, default="test", help="with --tokens (default: test)")
    parser.add_argument("--seed", type=bounded(Seed), default=0, help="with --tokens: of the bootstrap (default: 0)")
    parser.add_device()
    parser.add_plugins()
    arguments = parser.parse_args()
    if arguments.tokens:
        if arguments.runs:
            parser.error(f"--tokens compares two runs and no more, such as {arguments.runs[0]}")
        if arguments.mixture and arguments.split == "valid":
            raise UserError("--mixture: its weights are fitted to valid", "choose another --split, or leave it out")
        check_output(arguments.plot)
        options = arguments.split, arguments.device, arguments.seed, arguments.plot, arguments.mixture
        print(printable(compare_tokens(arguments.tokens, *options), "\n"))
        return 0
    if arguments.mixture:
        parser.error("--mixture: is of the two models of --tokens")
    check_output(arguments.csv, arguments.json, arguments.plot)
    runs = matching(arguments.runs or [str(OUTPUTS)])
    if arguments.sentence is not None:
        if not arguments.runs:
            tables = groups(collect(runs)[0], seeds=True)
            language_models = [table for table in tables if table.kind is LANGUAGE_MODEL]
            runs = [row.entries[0].folder for table in language_models for row in table.rows] or runs
        print(printable(compare_sentence(runs, arguments.sentence, arguments.device, arguments.plot), "\n"))
        return 0
    entries, others = collect(runs)
    tables = groups(entries, arguments.seeds)
    if tables:
        print(as_text(tables, arguments.markdown))
        warn(number(tables))
    for folder, reason in others.items():
        warn(f"{folder}: {reason}")
    if arguments.csv:
        write_output(arguments.csv, as_csv(tables))
    if arguments.json:
        write_output(arguments.json, as_json(tables, others))
    if arguments.plot:
        write_output(arguments.plot, picture(tables, arguments.plot))
        if any(table.kind is LABELS for table in tables):
            warn("--plot: runs of labels have no perplexity, so they are not in the picture")
    return 0
