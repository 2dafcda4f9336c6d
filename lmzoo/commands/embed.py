"""Embed the tokens of a text: ``lmzoo embed RUN TEXT FILE``."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import torch
from torch import Tensor

from lmzoo.cli.command import CommandParser, backwards, check_output, open_run, require_kind, warn
from lmzoo.commands import COMMANDS
from lmzoo.core.errors import UserError, printable
from lmzoo.core.files import output_stream
from lmzoo.core.progress import Bar, reading
from lmzoo.corpus import EOS_ID, Vocabulary
from lmzoo.corpus.vocabulary import turned
from lmzoo.protocol.abilities import Encoder
from lmzoo.protocol.encoder import EmbeddedText, embed_lines
from lmzoo.protocol.lines import known_words, unknown_warning

OCCURRENCES, NEIGHBOURS, AROUND = 5, 5, 3
"""How many tokens of a word are printed, how many neighbours of each, and how many words on either side of a token."""

PART_TOKENS = 1 << 14
"""Whole lines of a file are embedded and written together up to so many tokens."""

LONGEST_LINE = 1 << 17
"""Words of a line, which are embedded all at once."""


@dataclass
class TextOnDisk:
    """A text whose words and their numbers are on disk, so that little of it is in memory.

    Attributes:
        file: where the text came from.
        word_file: a word a line, in UTF-8.
        number_file: int32, with EOS_ID at the end of each line of the text, as the model reads it.
        reverse: whether that is from the end of each line; the words are in the order of the text.
        words: N, how many there are.
        lines: how many lines have a word.
    """

    file: Path
    word_file: BinaryIO
    number_file: BinaryIO
    reverse: bool
    words: int = 0
    lines: int = 0

    @classmethod
    @contextmanager
    def of(cls, vocabulary: Vocabulary, file: Path) -> Iterator["TextOnDisk"]:
        """A context that has a file of a sentence a line on disk; a UserError where there is no room for it."""
        with ExitStack() as files:
            try:
                word_file, number_file = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
                text = cls(file, cast(BinaryIO, word_file), cast(BinaryIO, number_file), vocabulary.form.reverse)
                text._fill(vocabulary)
            except OSError as error:
                with suppress(OSError):
                    files.close()
                where = tempfile.tempdir or "temporary files"  # it is None where no folder will do
                raise UserError(
                    f"{where}: cannot be written ({error.strerror})", "set TMPDIR to a folder with more room"
                ) from None
            yield text

    def _fill(self, vocabulary: Vocabulary) -> None:
        last = EOS_ID
        for piece, numbers in vocabulary.encode_pieces(
            reading(self.file, of_words=vocabulary.form.spaced), str(self.file)
        ):
            words = vocabulary.form.forwards.prepared(piece).decode().split()
            tokens = numbers.int().numpy()
            self.words += len(words)
            self.lines += int(((tokens == EOS_ID) & (np.insert(tokens[:-1], 0, last) != EOS_ID)).sum())
            self.word_file.write("".join(f"{word}\n" for word in words).encode())
            self.number_file.write(tokens.tobytes())
            last = tokens[-1]
        self.word_file.flush()
        self.number_file.flush()

    def parts(self) -> Iterator[Tensor]:
        """(n,) tokens of whole lines, with `<eos>` at the end of each, in the order of the text."""
        tokens = np.memmap(self.number_file, np.int32, "r")
        begin = 0
        while begin < len(tokens):
            size, last = PART_TOKENS, -1
            while not len(ends := np.flatnonzero(tokens[begin : begin + size] == EOS_ID)):
                size, last = 2 * size, 0  # a longer line is a part by itself
                if size > LONGEST_LINE:
                    raise UserError(f"{self.file}: a line has more than {LONGEST_LINE:,} words", "part it")
            end = begin + int(ends[last]) + 1
            yield torch.from_numpy(tokens[begin:end].astype(np.int64))
            begin = end

    def read_words(self) -> Iterator[str]:
        """The words, in the order of the text."""
        self.word_file.seek(0)
        return (line[:-1].decode() for line in self.word_file)

    def line_arrays(self) -> Iterator[np.ndarray]:
        """int64 numbers of the words' lines, from 0."""
        done = 0
        for tokens in self.parts():
            ends = (tokens == EOS_ID).long()
            yield (done + ends.cumsum(0))[ends == 0].numpy()
            done += int(ends.sum())

    def embedding_arrays(self, encoder: Encoder) -> Iterator[np.ndarray]:
        """(n, h) float32 of the words."""
        with Bar(self.words, "token", "embedding") as bar:
            for tokens in self.parts():
                order = turned(tokens) if self.reverse else torch.arange(len(tokens))
                embedded = embed_lines(encoder, tokens)[order][tokens != EOS_ID]
                yield embedded.numpy()
                bar.update(steps=len(embedded))

    def write(self, encoder: Encoder, file: Path) -> int:
        """Write the embeddings for `numpy.load`, and a table with the line and the word of each row to `table_of`.

        Returns: h, the size of the embeddings.

        Raises: UserError where a file cannot be written.
        """
        with output_stream(table_of(file)) as table, output_stream(file) as array:
            table.write(b"line\tword\n")
            lines = chain.from_iterable(part.tolist() for part in self.line_arrays())
            table.writelines(f"{n}\t{word}\n".encode() for n, word in zip(lines, self.read_words(), strict=True))
            embeddings = self.embedding_arrays(encoder)
            first = next(embeddings)
            shape = (self.words, first.shape[1])
            header = {"descr": np.lib.format.dtype_to_descr(first.dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(array, header)
            for part in chain([first], embeddings):
                array.write(part.tobytes())
            return shape[1]


def table_of(file: Path) -> Path:
    """The table of words beside an array; a UserError where the array does not end as numpy's do."""
    if file.suffix != ".npy":
        raise UserError(f"{file}: does not end in .npy", "name such a file; its words are written to a .tsv beside it")
    return file.with_suffix(".tsv")


def embedded(encoder: Encoder, text: TextOnDisk) -> EmbeddedText:
    """All of a text in memory."""
    lines, embeddings = map(np.concatenate, ([*text.line_arrays()], [*text.embedding_arrays(encoder)]))
    return EmbeddedText([*text.read_words()], torch.from_numpy(lines), torch.from_numpy(embeddings))


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="lmzoo embed",
        description=f"{COMMANDS['embed']}. Under a trained linear dynamical system it is the mean of the state given "
        "the whole line, scaled so that over the training text it varies alike in all directions, then to unit "
        "length; under a hidden Markov model, the roots of the posteriors of its states; of a recurrent network, its "
        "state after the token, scaled to unit length, which knows nothing of later words. numpy.load('book.npy', "
        "mmap_mode='r') reads the embeddings (N, h), and book.tsv beside it has a row for each: the number of its "
        "line, from 0, and its word.",
        epilog="examples: lmzoo embed outputs/ptb/lds book.txt book.npy; "
        "lmzoo embed outputs/ptb/lds book.txt --neighbours bank",
    )
    parser.add_run(
        "outputs/ptb/lds", "the run directory of model=lds, of a hidden Markov model or of a recurrent network"
    )
    parser.add_argument("text", type=Path, help="a sentence a line, words separated by spaces, UTF-8")
    out = parser.add_mutually_exclusive_group(required=True)
    out.add_argument("file", type=Path, nargs="?", help="the file to write, such as book.npy")
    out.add_argument("--neighbours", metavar="WORD", help="instead print the tokens nearest to those of a word")
    parser.add_device()
    options = parser.parse_args()
    check_output(options.file, inputs=[options.text])
    if options.file:
        check_output(table_of(options.file), inputs=[options.text])
    run, model, vocabulary = open_run(options.run, options.device)
    encoder = require_kind(run, model, Encoder, "a model with vectors of tokens, such as model=lds")
    warn(run.unfinished())
    warn(backwards(run.path, vocabulary))
    is_unknown = ~known_words(model, vocabulary)
    with TextOnDisk.of(vocabulary, options.text) as on_disk:
        unknown = sum(int(is_unknown[tokens].sum()) for tokens in on_disk.parts())
        warn(unknown_warning(unknown, on_disk.words, str(options.text)))
        if options.file:
            dimensions = on_disk.write(encoder, options.file)
            print(f"{on_disk.words:,} tokens of {on_disk.lines:,} lines, {dimensions} dimensions each")
            return 0
        text = embedded(encoder, on_disk)
    places = [place for place, word in enumerate(text.words) if word == options.neighbours]
    if not places:
        raise UserError(f"{options.text}: does not contain '{options.neighbours}'")
    for place in places[:OCCURRENCES]:
        print(f"line {int(text.lines[place]) + 1}: {printable(text.passage(place, AROUND))}")
        for cosine, other in text.neighbours(text.embeddings[place], NEIGHBOURS, text.words[place]):
            print(f"  {cosine:.2f}  {printable(text.passage(other, AROUND))}")
    if len(places) > OCCURRENCES:
        print(f"… and {len(places) - OCCURRENCES:,} more of '{printable(options.neighbours)}'")
    return 0
