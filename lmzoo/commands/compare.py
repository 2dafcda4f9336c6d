"""Compare runs: ``lmzoo compare RUN…``; two models by word: ``--tokens A B``; several on a ``--sentence``."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from lmzoo.cli.command import CommandParser, RunFolder, check_output, inform, warn, warn_of
from lmzoo.core.errors import UserError, error_prefix, pluralize, printable
from lmzoo.core.files import write_output
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.corpus.corpus import SPLITS
from lmzoo.corpus.form import require_one_direction
from lmzoo.corpus.tokenizer import TOKENIZERS
from lmzoo.corpus.vocabulary import UNK
from lmzoo.protocol.difference import bootstrap, by_frequency, by_word
from lmzoo.protocol.lines import known_words, scored, vocabulary_warning
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.perplexity import Score, text_logprobs, validated
from lmzoo.reports.comparison import as_csv, as_text, collect, groups
from lmzoo.reports.plot import picture
from lmzoo.reports.reading import Surprisal, Times, surprisal
from lmzoo.reports.table import cell, csv_bytes
from lmzoo.reports.words import picture_of_bands, picture_of_sentence
from lmzoo.runs.directory import Run
from lmzoo.runs.external import matching, open_model, require_words
from lmzoo.runs.kinds import LABELS, LANGUAGE_MODEL
from lmzoo.runs.listing import OUTPUTS, names

SAMPLES, SEED = 1000, 0
"""The number of bootstrap samples, and their seed."""

OF = {
    "seeds": ["table"], "csv": ["table", "sentence"],
    "plot": ["table", "tokens", "sentence"], "split": ["tokens"],
    "tokenize": ["sentence"],
}  # fmt: skip
"""The modes of comparison that an option belongs to."""

SENTENCE = ("run", "position", "word", "known", "surprisal")
"""The columns of ``--csv`` with ``--sentence``, as in ``lmzoo score --table``."""

SHOWN = 10
"""The number of words shown on which each of two models is better."""


def compare_tokens(paths: list[Path], split: str, device: str, plot: Path | None = None) -> str:
    """Report which of two models predicts a split better, with what confidence, and the words that differ most.

    Args:
        paths: two runs.
        plot: the output for a plot of the difference by word frequency.

    Raises: UserError as `_all_scored` does, and if one of them gives a token probability 0.
    """
    found, text = _all_scored(paths, split, device, f"--plot {plot}" if plot else None)
    tokens = text.splits[split]
    lines = []
    for name, (run, model, logprobs) in zip("AB", found, strict=True):
        measured, known = Score(logprobs), known_words(model, text.vocabulary)[tokens]
        beside = f" (context {run.config()['corpus']['context']})"
        if (unknown := int((~known).sum())) and not model.whole_sentences:
            beside += f", without its {pluralize(unknown, 'unknown word')} {Score(logprobs[known]).perplexity:.2f}"
        if measured.impossible:
            raise UserError(f"{run.path}: {measured.impossible:,} tokens of {split} have probability 0", "smooth it")
        lines.append(f"{name}  {measured.perplexity:.2f}  {run.path}{beside}")
    a, b = (logprobs for *_, logprobs in found)
    interval = bootstrap(a, b, tokens, SAMPLES, SEED)
    lines.append(
        f"perplexity of A minus that of B on {split}: {interval.difference:+.2f}, 95% interval {interval.low:+.2f} to "
        f"{interval.high:+.2f} ({SAMPLES} texts drawn from {int((tokens == 0).sum()):,} sentences"
        f"{f' in blocks of {interval.block}' if interval.block > 1 else ''}, seed {SEED})"
    )
    if any(model.whole_sentences for _, model, _ in found):
        return "\n".join(lines)
    a, b = a / math.log(2), b / math.log(2)
    frequency = text.splits["train"].bincount(minlength=len(text.vocabulary))
    if (unknown := text.vocabulary.index.get(UNK)) is not None:
        frequency[unknown] = 0  # it stands for many rare words
    bands = by_frequency(a, b, tokens, frequency, interval.block, SAMPLES, SEED)
    if plot:
        write_output(plot, picture_of_bands(bands, str(paths[0]), str(paths[1]), f"{text.name}, {split}", plot))
    lines.append(f"\nby occurrences in train of {text.name}, A gains")
    lines.append(f"{'bits/token':>10} {'95% interval':>18} {'count':>9}  occurrences")
    for band in bands:
        end = f" to {band.end - 1:,.0f}" if band.end < math.inf else "+"
        within = f"{band.low:+.3f} to {band.high:+.3f}"
        lines.append(f"{band.gain:+10.3f} {within:>18} {band.tokens:9,}  {band.least:,}{end}")
    counts, gains = by_word(a, b, tokens, len(text.vocabulary))
    for name, signed in (("A", gains), ("B", -gains)):
        lines += [f"\n{name} is better on", f"{'bits':>10} {'count':>9} {'a token':>9}  word"]
        for word in signed.argsort(descending=True, stable=True)[:SHOWN].tolist():
            if signed[word] > 0:
                bits, count = float(signed[word]), int(counts[word])
                lines.append(f"{bits:10.1f} {count:9,} {bits / count:9.3f}  {text.vocabulary.words[word]}")
    return "\n".join(lines)


def _all_scored(
    paths: Sequence[Path], split: str, device: str, of_words: str | None
) -> tuple[list[tuple[Run, LanguageModel, Tensor]], Corpus]:
    """Runs, their models and (N,) float64 log p of the tokens of a split, and their corpus.

    Args:
        of_words: the option that requires probabilities of words, if any.

    Raises: UserError, before scoring, if texts, vocabularies or directions differ, or required probabilities of words
        are missing.
    """
    opened = [open_model(path, device) for path in paths]
    texts = [run.corpus() for run, *_ in opened]
    (_, _, vocabulary), text, first, found = opened[0], texts[0], paths[0], []
    for path, (_, model, words), own in zip(paths, opened, texts, strict=True):
        if of_words and model.whole_sentences:
            raise UserError(f"{of_words}: {path} assigns probabilities only to whole sentences", "leave it out")
        require_one_direction(path, words.form, first, vocabulary.form)
        if text.sha256.get(split) != own.sha256.get(split) or vocabulary.words != words.words:
            raise UserError(f"{path}: reads another text, or other words, than {first}", "name those of one corpus")
        if len(text.splits[split]) != len(own.splits[split]):
            advice = "name those with the same trainer.first_tokens"
            raise UserError(f"{path}: reads more or less of {split} than {first}", advice)
    for (run, model, _), own in zip(opened, texts, strict=True):
        warn(run.unfinished())
        each = text_logprobs(model, text.splits[split], own.context, own.conditions.get(split))
        found.append((run, model, validated(each, run.path).cpu().double()))
    return found, text


def compare_sentence(
    folders: list[Path],
    sentence: str,
    device: str,
    skip: bool = False,
    plot: Path | None = None,
    table: Path | None = None,
    tokenize: str | None = None,
) -> str:
    """Tabulate the surprisal of each word of a sentence in bits, with a column per run and log p in the last row.

    If runs cut the sentence into different words, those are compared that white space separates; see
    `lmzoo.reports.reading.surprisal`.

    Args:
        skip: whether to leave out runs that cannot score the sentence, with a warning.
        plot: the output for a plot.
        table: the output for a row for each word under each run, as CSV.
        tokenize: the tokenizer for runs that read words separated by spaces.

    Raises: UserError if a model has no probabilities of words, or reads in another direction than the first.
    """
    read: dict[str, Surprisal] = {}
    cuts: list[list[str]] = []
    vocabularies: list[Vocabulary] = []
    named = names(folders)
    for name, folder in list(named.items()):
        try:
            run, model, vocabulary = open_model(folder, device)
            first = next(iter(named.values()))
            require_one_direction(run.path, vocabulary.form, first, [*vocabularies, vocabulary][0].form)
            require_words(run, model, vocabulary, "leave it out")
            cut = TOKENIZERS[tokenize] if tokenize and not vocabulary.form.tokenizer else str
            with error_prefix(str(run.path)):
                line = next(scored(model, vocabulary, [cut(sentence)], "sentence", "--sentence"))
        except UserError as error:
            if not skip or len(named) == 1:
                raise
            warn(f"left out: {error.problem}")
            del named[name]
            continue
        warn_of(run, vocabulary)
        vocabularies.append(vocabulary)
        cuts.append(line.words)
        read[str(folder)] = Surprisal((0.0 - line.logprobs / math.log(2)).numpy(), line.known.numpy())
    if not all(each.known.all() for each in read.values()):
        warn(vocabulary_warning(vocabularies))
    words = cuts[0]
    if any(cut != words for cut in cuts):
        if not (words := sentence.split()):
            raise UserError("--sentence: has no word", "write one")
        read = {str(folder): _displayed(folder, words, device, tokenize) for folder in named.values()}
        warn("the runs tokenize the sentence differently; words separated by white space are compared, without <eos>")
    if plot:
        write_output(plot, picture_of_sentence(words, read, plot))
    if table:
        rows = [
            [name, place + 1, word, bool(model.known[place]), float(model.bits[place])]
            for name, model in zip(named, read.values(), strict=True)
            for place, word in enumerate(words)
        ]
        write_output(table, csv_bytes([SENTENCE, *(map(cell, row) for row in rows)]))
    lines = [f"{number}  {name}" for number, name in enumerate(read, 1)]
    width = max(map(len, words))
    lines.append("surprisal in bits; of * the model reads <unk>")
    lines.append(" " * width + "".join(f"{number:>9}" for number in range(1, len(read) + 1)))
    for place, word in enumerate(words):
        cells = (f"{model.bits[place]:8.2f}{' ' if model.known[place] else '*'}" for model in read.values())
        lines.append(f"{word:{width}}" + "".join(cells))
    lines.append(f"{'all':{width}}" + "".join(f"{model.bits.sum():8.2f} " for model in read.values()))
    return "\n".join(lines)


def _displayed(folder: Path, words: list[str], device: str, tokenize: str | None) -> Surprisal:
    """The surprisal under a run of the words of a sentence as they are displayed."""
    _, model, vocabulary = open_model(folder, device)
    if vocabulary.form.reverse:
        problem = f"{folder}: reads lines backwards (corpus.reverse=true) and tokenizes the sentence in its own way"
        raise UserError(problem, "compare it by itself")
    cut = TOKENIZERS[tokenize] if tokenize and not vocabulary.form.tokenizer else None
    zeros = np.zeros(len(words), dtype=int)
    with error_prefix(str(folder)):
        return surprisal(model, vocabulary, Times(words, zeros, zeros, zeros), "sentence", cut)


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "compare",
        ". The table has the options in which finished runs differ, and their "
        "results, sorted by validation perplexity. There is one table for each text and context. Runs that differ only "
        "in the seed are one row, with mean and standard deviation. With --tokens, two models are compared word by "
        "word; with --sentence, several on a sentence.",
        "examples: lmzoo compare; lmzoo compare 'outputs/ptb/lstm*' --csv lstm.csv; "
        "lmzoo compare --tokens outputs/ptb/lstm outputs/ptb/gru --split valid",
    )
    parser.add_argument("runs", nargs="*", help="runs, patterns, or folders above runs (default: outputs)")
    parser.add_argument("--seeds", action="store_true", help="list the runs of each seed")
    about = "write each row with all its options; with --sentence, each word under each run"
    parser.add_file("--csv", about)
    about = "plot perplexity against epochs, time and parameters; with --tokens, the difference against word frequency"
    parser.add_file("--plot", f"{about}; with --sentence, the surprisal of each word")
    of_words = parser.add_mutually_exclusive_group()
    of_words.add_argument(
        "--sentence", metavar="TEXT", help="print the surprisal of each word of a sentence under each run"
    )
    about = "print the words on which two runs differ most"
    of_words.add_argument("--tokens", nargs=2, action=RunFolder, metavar=("A", "B"), help=about)
    parser.add_tokenize()
    parser.add_argument("--split", choices=SPLITS, help="split for --tokens (default: test)")
    parser.add_device()
    parser.add_plugins()
    arguments = parser.parse_args()
    if arguments.tokens and arguments.runs:
        parser.error(f"name both after --tokens, not {arguments.runs[0]}")
    asked = next((way for way in ("tokens", "sentence") if getattr(arguments, way) is not None), "table")
    for option, ways in OF.items():
        if getattr(arguments, option) != parser.get_default(option) and asked not in ways:
            of = ", ".join("the table of runs" if way == "table" else f"--{way}" for way in ways)
            raise UserError(f"--{option}: is of {of}", "leave it out")
    check_output(arguments.csv, picture=arguments.plot)
    if arguments.tokens:
        split, device = arguments.split or "test", arguments.device
        print(printable(compare_tokens(arguments.tokens, split, device, arguments.plot), "\n"))
        return
    runs = matching(arguments.runs or [str(OUTPUTS)])
    if arguments.sentence is not None:
        if not arguments.runs:
            tables = groups(collect(runs)[0], seeds=True)
            language_models = [table for table in tables if table.kind is LANGUAGE_MODEL]
            runs = [row.entries[0].folder for table in language_models for row in table.rows] or runs
        outputs = arguments.plot, arguments.csv
        compared = compare_sentence(
            runs, arguments.sentence, arguments.device, not arguments.runs, *outputs, arguments.tokenize
        )
        print(printable(compared, "\n"))
        return
    entries, others = collect(runs)
    tables = groups(entries, arguments.seeds)
    if tables:
        print(as_text(tables))
    for folder, reason in others.items():
        inform(f"{folder}: {reason}")
    if arguments.csv:
        write_output(arguments.csv, as_csv(tables))
    if arguments.plot:
        write_output(arguments.plot, picture(tables, arguments.plot))
        if any(table.kind is LABELS for table in tables):
            warn("--plot: runs of labels have no perplexity, so they are not in the picture")
