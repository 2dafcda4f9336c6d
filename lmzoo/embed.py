"""Embed the tokens of a text: ``python -m lmzoo.embed RUN TEXT FILE``."""

if __name__ == "__main__":
    from lmzoo.cli.start import start

    start("lmzoo.embed")

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from lmzoo.cli.command import CommandParser, check_output, open_run, require_kind, warn
from lmzoo.core.errors import UserError, printable
from lmzoo.core.files import output_stream, read_text
from lmzoo.corpus import EOS_ID, Vocabulary
from lmzoo.protocol.encoder import Encoder, embed_lines

OCCURRENCES, NEIGHBOURS, AROUND = 5, 5, 3
"""How many tokens of a word are printed, how many neighbours of each, and how many words on either side of a token."""

MOST_BYTES = 1 << 32
"""Of the words in a file; numpy keeps as much room for each as for the longest."""


@dataclass(frozen=True)
class EmbeddedText:
    """The words of a text and the embedding of each, computed from its whole line.

    Attributes:
        words: N, as they stand in the text, even if the model reads them as `<unk>`.
        lines: (N,) the number of each word's line, from 0.
        embeddings: (N, h) float32, of unit length.
    """

    words: list[str]
    lines: Tensor
    embeddings: Tensor

    @classmethod
    def of(cls, encoder: Encoder, vocabulary: Vocabulary, file: Path) -> "EmbeddedText":
        """Embed a file that has a sentence on each line.

        Raises: UserError for a word that is so long that the words would not fit into `MOST_BYTES`.
        """
        text = read_text(file)
        tokens = vocabulary.encode(text, str(file))
        words = vocabulary.form.prepared(text).decode().split()
        longest = max(words, key=len, default="")
        if (room := len(words) * np.array(longest).nbytes) > MOST_BYTES:
            number = next(i for i, line in enumerate(text.decode().split("\n"), start=1) if longest in line)
            raise UserError(
                f"{file}, line {number}: a word of {len(longest):,} signs, and numpy would take {room / 1e9:,.0f} GB "
                f"to keep as much room for each of the {len(words):,} words",
                "shorten it, or embed the text in parts",
            )
        embedded = embed_lines(encoder, tokens)
        is_word = tokens != EOS_ID
        return cls(words, (~is_word).cumsum(0)[is_word], embedded[is_word])

    def write(self, file: Path) -> None:
        """Write ``words``, ``lines`` and ``embeddings`` for `numpy.load`.

        Raises: UserError where the file cannot be written.
        """
        arrays = {"words": np.array(self.words), "lines": self.lines.numpy(), "embeddings": self.embeddings.numpy()}
        with output_stream(file) as stream, zipfile.ZipFile(stream, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                    np.lib.format.write_array(part, array, allow_pickle=False)

    def neighbours(self, place: int, count: int) -> list[tuple[float, int]]:
        """The cosine and the place of the ``count`` nearest tokens, nearest first; every word occurs once at most."""
        cosines = self.embeddings @ self.embeddings[place]
        found, seen = [], {self.words[place]}
        for other in cosines.argsort(descending=True).tolist():
            if self.words[other] not in seen:
                seen.add(self.words[other])
                found.append((float(cosines[other]), other))
                if len(found) == count:
                    break
        return found

    def passage(self, place: int) -> str:
        """A token in brackets, with a few words of its line on either side."""
        low, high = max(0, place - AROUND), place + AROUND + 1
        line = self.lines[low:high] == self.lines[place]
        words = [f"[{word}]" if low + i == place else word for i, word in enumerate(self.words[low:high])]
        return " ".join(word for word, same in zip(words, line.tolist(), strict=True) if same)


def main() -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="python -m lmzoo.embed",
        description="Write the embedding of every token of a text under a trained linear dynamical system: the mean "
        "of its state given the whole line, scaled so that over the training text it varies alike in all directions, "
        "then to unit length; under a hidden Markov model, the roots of the posteriors of its states. "
        "numpy.load(FILE) has 'words' (N), 'lines' (N, numbers from 0) and 'embeddings' (N, h).",
        epilog="examples: python -m lmzoo.embed outputs/ptb/lds book.txt book.npz; "
        "python -m lmzoo.embed outputs/ptb/lds book.txt --neighbours bank",
    )
    parser.add_run("outputs/ptb/lds", "the run directory of model=lds or of a hidden Markov model")
    parser.add_argument("text", type=Path, help="a sentence a line, words separated by spaces, UTF-8")
    out = parser.add_mutually_exclusive_group(required=True)
    out.add_argument("file", type=Path, nargs="?", help="the file to write, such as book.npz")
    out.add_argument("--neighbours", metavar="WORD", help="instead print the tokens nearest to those of a word")
    parser.add_device()
    options = parser.parse_args()
    if options.file:
        check_output(options.file, options.text)
    run, model, vocabulary = open_run(options.run, options.device)
    encoder = require_kind(run, model, Encoder, "a model with vectors of tokens, such as model=lds")
    text = EmbeddedText.of(encoder, vocabulary, options.text)
    warn(run.unfinished())
    if options.file:
        text.write(options.file)
        lines, dimensions = len(text.lines.unique()), text.embeddings.shape[1]
        print(f"{len(text.words):,} tokens of {lines:,} lines, {dimensions} dimensions each")
        return 0
    places = [place for place, word in enumerate(text.words) if word == options.neighbours]
    if not places:
        raise UserError(f"{options.text}: does not contain '{options.neighbours}'")
    for place in places[:OCCURRENCES]:
        print(f"line {int(text.lines[place]) + 1}: {printable(text.passage(place))}")
        for cosine, other in text.neighbours(place, NEIGHBOURS):
            print(f"  {cosine:.2f}  {printable(text.passage(other))}")
    if len(places) > OCCURRENCES:
        print(f"… and {len(places) - OCCURRENCES:,} more of '{printable(options.neighbours)}'")
    return 0
