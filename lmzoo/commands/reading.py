"""Evaluate surprisal as a predictor of reading times: ``lmzoo reading RUN… TABLE``."""

import argparse
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from lmzoo.cli.command import CommandParser, RunFolder, check_output, inform, warn
from lmzoo.core.errors import UserError, printable
from lmzoo.core.files import write_output
from lmzoo.corpus.tokenizer import TOKENIZERS
from lmzoo.protocol.lines import form_warning
from lmzoo.reports.reading import (
    Gain,
    Surprisal,
    Times,
    comparable_words,
    gain,
    picture,
    read_times,
    sentence_edges,
    surprisal,
    time_warnings,
    unigram_surprisal,
)
from lmzoo.reports.table import aligned, cell, csv_bytes, table_bytes
from lmzoo.runs.external import open_model, require_words
from lmzoo.runs.listing import names
from lmzoo.runs.loading import source_warnings

COLUMNS = ("run", "model", "words", "perplexity", "gain", "low", "high", "difference", "lower", "higher", "slope")
"""Words are those whose times are compared; perplexity is per displayed word; gains are in thousandths of a nat; the
difference is from the gain of the first run."""


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "reading",
        ": for each run the gain in log-likelihood of held-out times over word "
        "length and frequency, in thousandths of a nat per word, with its 95% interval; its difference to that of "
        "the first run, word by word; and the increase in reading time per bit.",
        "example: lmzoo reading outputs/ptb/ngram outputs/ptb/lstm processed_wordinfo.tsv --tokenize ptb",
    )
    parser.add_argument("runs", action=RunFolder, nargs="+", metavar="RUN", help="runs of language models")
    parser.add_plugins()
    parser.add_argument(
        "table", type=Path, help="one word per line with its reading time, after a header; tab-separated or .csv"
    )
    parser.add_argument("--word", default="word", metavar="COLUMN", help="column of the words as presented (word)")
    parser.add_argument("--time", default="meanItemRT", metavar="COLUMN", help="column of reading times (meanItemRT)")
    parser.add_argument("--story", default="item", metavar="COLUMN", help="column of text ids (item)")
    parser.add_argument("--place", default="zone", metavar="COLUMN", help="column of word positions in the text (zone)")
    parser.add_argument(
        "--sentence", metavar="COLUMN", help="column of sentence ids (default: sentences end with . ? !)"
    )
    about = "include the first and last words of sentences, by default excluded as in Oh & Schuler (2023)"
    parser.add_argument("--edges", action="store_true", help=about)
    parser.add_tokenize()
    about = "write each word with its ids, time, unigram and model surprisals in bits (.csv or .tsv)"
    parser.add_file("--words", about)
    parser.add_file("--csv", "write the table as CSV")
    parser.add_file("--plot", "plot the gain against perplexity")
    parser.add_device()
    arguments = parser.parse_args()
    check_output(arguments.words, arguments.csv, picture=arguments.plot, inputs=[arguments.table])
    times = read_times(
        arguments.table, word=arguments.word, time=arguments.time, story=arguments.story, place=arguments.place,
        sentence=arguments.sentence,
    )  # fmt: skip
    for doubt in time_warnings(times):
        warn(f"{arguments.table}: {doubt}")
    rows, points, words = compare_readers(arguments, times)
    print("\n".join(aligned(rows, left=(0, 1))))
    if arguments.words:
        cells = zip(*(map(cell, column) for column in words.values()), strict=True)
        write_output(arguments.words, table_bytes([words, *cells], arguments.words))
    if arguments.csv:
        write_output(arguments.csv, csv_bytes(rows))
    if arguments.plot:
        write_output(arguments.plot, picture(points, arguments.plot))


def compare_readers(
    arguments: argparse.Namespace, times: Times
) -> tuple[list[list[str]], list[tuple[str, float, Gain]], dict[str, Iterable[Any]]]:
    """Evaluate runs as models of readers, on words known to all.

    Returns: a table with `COLUMNS`, the data for `picture`, and the columns of ``--words``.
    """
    named = names(arguments.runs)
    header = [arguments.story, arguments.place, arguments.word, arguments.time, "compared", "rarity", *named]
    if arguments.words and (twice := [name for name in header if header.count(name) > 1]):
        raise UserError(f"--words: two columns are named {twice[0]}", "rename the column or the folder of the run")
    read: dict[Path, tuple[str, Surprisal]] = {}
    rare, frequencies_of, texts = None, None, set[str | None]()
    for folder in named.values():
        run, model, vocabulary = open_model(folder, arguments.device)
        require_words(run, model, vocabulary, labels=False, reverse=False)
        for caution in source_warnings(run):
            warn(caution)
        tokenize = TOKENIZERS[arguments.tokenize] if arguments.tokenize and not vocabulary.form.tokenizer else None
        context, settings = run.config()["corpus"]["context"], run.config()["model"]
        name = f"{settings['order']}-gram" if settings["name"] == "ngram" else settings["name"]
        read[folder] = name, surprisal(model, vocabulary, times, context, tokenize)
        text = " ".join(map(tokenize, times.words) if tokenize else times.words)
        warn(form_warning(vocabulary, text.encode(), vocabulary.encode([text]), str(arguments.table)))
        train = run.recorded_corpus()["sha256"].get("train")
        texts |= {train} - {None}
        if rare is None and vocabulary.form.of_words and train is not None:
            rare, frequencies_of = unigram_surprisal(run.split("train").tokens, vocabulary, times, tokenize), folder
    if rare is None:
        raise UserError("no run has a training text of words, which frequencies need", "add one, such as model=ngram")
    if len(texts) > 1:
        warn(f"the runs were trained on different texts; frequencies are from {frequencies_of}")
    known = np.logical_and.reduce([known for _, (_, known) in read.values()])
    rows = comparable_words(times, known, arguments.edges)
    for folder, (_, (bits, _)) in read.items():
        if impossible := int(np.isinf(bits[known]).sum()):
            raise UserError(f"{folder}: {impossible:,} of the words that it knows have probability 0", "smooth it")
    left = [(~known, "are not known to every model")]
    if not arguments.edges:
        left.append((known & sentence_edges(times), "are the first or last of a sentence"))
    rest = ~np.logical_or.reduce([rows, *(words for words, _ in left)])
    left.append((rest, "have no time or follow such a word or the beginning of a text"))
    counts = ", ".join(f"{words.sum():,} {what}" for words, what in left)
    inform(f"{rows.sum():,} of {len(rows):,} words are compared; of the others {counts}")
    stories, places = zip(*times.ids, strict=True)
    surprisals = (bits for _, (bits, _) in read.values())
    values: list[Iterable[Any]] = [stories, places, times.words, times.times, rows, rare, *surprisals]
    columns = dict(zip(header, values, strict=True))
    table: list[list[str]] = [[*COLUMNS]]
    points: list[tuple[str, float, Gain]] = []
    for folder, (name, (bits, _)) in read.items():
        added = gain(times, rare, bits, rows)  # before the mean, as rows may be empty
        perplexity = math.exp2(bits[rows].mean())
        beyond = added.difference_from(points[0][2]) if points else None
        points.append((name, perplexity, added))
        gains = [f"{1000 * nats:.2f}" for nats in (added.nats, added.low, added.high, *(beyond or ()))]
        cells = [f"{perplexity:.2f}", *gains, *([] if beyond else [""] * 3), f"{added.slope:.3g}"]
        table.append([printable(str(folder)), printable(name), str(rows.sum()), *cells])
    return table, points, columns
