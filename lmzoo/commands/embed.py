"""Embed the tokens of a text: ``lmzoo embed RUN TEXT FILE``."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from lmzoo.cli.command import CommandParser, check_output, require_kind, warn, warn_of
from lmzoo.core.errors import UserError, pluralize, printable
from lmzoo.core.files import output_stream
from lmzoo.core.progress import reading
from lmzoo.corpus import EOS_ID, Vocabulary
from lmzoo.corpus.lines import line_numbers
from lmzoo.protocol.abilities import Encoder
from lmzoo.protocol.encoder import EmbeddedText, embed_lines
from lmzoo.protocol.lines import known_words, unknown_warning
from lmzoo.reports.table import tab_lines
from lmzoo.runs.external import open_model, require_words

OCCURRENCES, NEIGHBOURS, AROUND = 5, 5, 3
"""The number of tokens printed per word, of neighbours of each, and of context words on either side."""

PART_TOKENS = 1 << 14
"""The approximate number of tokens, in whole lines, embedded and written together."""

LONGEST_LINE = 1 << 17
"""The maximum number of words in a line, which is embedded as a whole."""


def parts(vocabulary: Vocabulary, file: Path) -> Iterator[tuple[list[str], Tensor]]:
    """Read a text in groups of lines of about `PART_TOKENS` tokens: their words, and (n,) indices for a model.

    Raises: UserError if a line has more than `LONGEST_LINE` words.
    """
    words, tokens = list[str](), torch.empty(0, dtype=torch.int64)
    for piece, numbers in vocabulary.encode_pieces(reading(file, of_words=vocabulary.form.spaced), str(file)):
        lines = piece.decode("utf-8", "surrogatepass").split("\n")
        words += chain.from_iterable(map(vocabulary.form.without_reverse.words, lines))
        tokens = torch.cat([tokens, numbers])
        ends = (tokens == EOS_ID).nonzero()[:, 0] + 1
        if max(len(line) for line in tokens.tensor_split(ends)) > LONGEST_LINE + 1:
            raise UserError(f"{file}: a line has more than {LONGEST_LINE:,} words", "part it")
        if not piece.endswith(b"\n"):  # the line goes on
            continue
        begin = 0
        for part in tokens.tensor_split(ends[:-1][(ends // PART_TOKENS).diff() > 0]):
            end = begin + int((part != EOS_ID).sum())
            yield words[begin:end], part
            begin = end
        words, tokens = [], tokens[:0]


def write(texts: Iterable[EmbeddedText], file: Path) -> int:
    """Write embeddings for `numpy.load`, and a table with the line and the word of each row to `table_of`.

    Returns: h, the size of the embeddings.

    Raises: UserError if a file cannot be written.
    """
    rows, h = 0, 0
    with output_stream(table_of(file)) as table, output_stream(file) as array:
        table.write(b"line\tword\n")
        for text in texts:
            table.write(tab_lines(zip(text.lines.tolist(), text.words, strict=True)).encode())
            if not h:
                h = text.embeddings.shape[1]
                _write_header(array, 0, h)
            array.write(text.embeddings.float().numpy().tobytes())
            rows += len(text.words)
        array.seek(0)
        _write_header(array, rows, h)
    return h


def _write_header(array: BinaryIO, rows: int, h: int) -> None:
    """Write the header of a numpy file, whose length does not depend on the number of rows."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False, "shape": (rows, h)}
    np.lib.format.write_array_header_1_0(array, header)


def table_of(file: Path) -> Path:
    """The path of the table of words that accompanies an array; raise a UserError if the array's suffix is not .npy."""
    if file.suffix != ".npy":
        raise UserError(f"{file}: does not end in .npy", "name such a file; its words are written to a .tsv beside it")
    return file.with_suffix(".tsv")


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "embed",
        ". For linear dynamical systems, the mean of the state given the whole line, "
        "whitened over the training text, then normalized to unit length; for hidden Markov models, the square roots "
        "of the posteriors of states; for recurrent networks, the state after the token, normalized to unit length, "
        "which does not depend on later words. numpy.load('book.npy', mmap_mode='r') reads the embeddings (N, h), and "
        "book.tsv beside it has a row for each: the number of its line, from 0, and its word.",
        "examples: lmzoo embed outputs/ptb/lds book.txt book.npy; "
        "lmzoo embed outputs/ptb/lds book.txt --neighbours bank",
    )
    parser.add_run("outputs/ptb/lds", "a run of model=lds, of a hidden Markov model or of a recurrent network")
    parser.add_argument("text", type=Path, help="text file, one sentence per line, words separated by spaces, UTF-8")
    parser.add_argument("file", type=Path, nargs="?", help="the file to write, such as book.npy")
    parser.add_argument("--neighbours", metavar="WORD", help="print the nearest tokens of each token of a word instead")
    parser.add_device()
    options = parser.parse_args()
    if (options.file is None) == (options.neighbours is None):
        raise UserError("give either a file to write or --neighbours WORD", "see --help")
    check_output(options.file, inputs=[options.text])
    if options.file:
        check_output(table_of(options.file), inputs=[options.text])
    run, model, vocabulary = open_model(options.run, options.device)
    encoder = require_kind(run, model, Encoder, "a model with vectors of tokens, such as model=lds")
    require_words(run, model, vocabulary, labels=False)
    warn_of(run, vocabulary)
    is_unknown, counts = ~known_words(model, vocabulary), Counter[str]()

    def counted() -> Iterator[EmbeddedText]:
        begun = 0
        for words, tokens in parts(vocabulary, options.text):
            inside = tokens != EOS_ID
            lines = begun + line_numbers(tokens)[inside]
            begun += int((~inside).sum())
            counts.update(words=len(words), lines=len(lines.unique()), unknown=int(is_unknown[tokens].sum()))
            yield EmbeddedText(words, lines, embed_lines(encoder, tokens)[vocabulary.text_order(tokens)][inside])
        warn(unknown_warning(counts["unknown"], counts["words"], str(options.text)))

    if options.file:
        dimensions = write(counted(), options.file)
        size = f"{pluralize(counts['words'], 'token')} of {pluralize(counts['lines'], 'line')}"
        print(f"{size}, {dimensions} dimensions each")
        return
    words, lines, embeddings = zip(*((part.words, part.lines, part.embeddings) for part in counted()), strict=True)
    text = EmbeddedText([*chain.from_iterable(words)], torch.cat(lines), torch.cat(embeddings))
    places = [place for place, word in enumerate(text.words) if word == options.neighbours]
    if not places:
        raise UserError(f"{options.text}: does not contain '{options.neighbours}'")
    for place in places[:OCCURRENCES]:
        print(f"line {int(text.lines[place]) + 1}: {printable(text.passage(place, AROUND))}")
        for cosine, other in text.neighbours(text.embeddings[place], NEIGHBOURS, text.words[place]):
            print(f"  {cosine:.2f}  {printable(text.passage(other, AROUND))}")
    if len(places) > OCCURRENCES:
        print(f"… and {len(places) - OCCURRENCES:,} more of '{printable(options.neighbours)}'")
