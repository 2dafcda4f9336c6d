"""Embed the tokens of a text: ``python -m lmzoo.embed RUN TEXT FILE``."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lmzoo.commands import CommandParser, check_output, run_command
from lmzoo.corpus import EOS_ID, Vocabulary
from lmzoo.corpus.sources import read_lines, write_atomic
from lmzoo.corpus.windows import SentenceWindows
from lmzoo.errors import UserError
from lmzoo.models.lds import LinearDynamicalSystem
from lmzoo.run import load

WINDOW_TOKENS = 8192
"""How many tokens are embedded at once; no embedding depends on it."""
OCCURRENCES, NEIGHBOURS, CONTEXT = 5, 5, 3
"""Tokens of a word and neighbours of each that are printed, and words printed on either side of a token."""


def load_system(run_dir: Path, device: str = "auto") -> tuple[LinearDynamicalSystem, Vocabulary]:
    """The linear dynamical system of a run, and its vocabulary.

    Raises: UserError where the run is of another model, or not trained yet.
    """
    model, vocabulary = load(run_dir, device)
    if not isinstance(model, LinearDynamicalSystem):
        raise UserError(f"{run_dir}: no linear dynamical system; train one with model=lds")
    return model, vocabulary


@torch.no_grad()
def embed_lines(embed: Callable[[Tensor, Tensor], Tensor], tokens: Tensor, device: torch.device) -> Tensor:
    """Embed each line of a (N,) text by itself; (N, h) in the order of the text, on the CPU.

    Args:
        embed: (B, T) tokens and a mask, False on padding -> (B, T, h), such as `LinearDynamicalSystem.embed`.
        device: where to call it.
    """
    windows = SentenceWindows(tokens, WINDOW_TOKENS, seed=None)
    order = windows.longest_first
    lengths = windows.lengths[order]
    before = lengths.cumsum(0) - lengths
    places = (windows.starts[order] - before).repeat_interleave(lengths) + torch.arange(len(tokens))  # (N,)
    parts = []
    for window in windows.epoch(0):
        mask = torch.ones_like(window.tokens, dtype=torch.bool) if window.mask is None else window.mask
        parts.append(embed(window.tokens.to(device), mask.to(device)).cpu()[mask])
    rows = torch.cat(parts)  # (N, h)
    return torch.empty_like(rows).index_copy_(0, places, rows)


@dataclass(frozen=True)
class EmbeddedText:
    """The words of a text and the embedding of each, from its whole line.

    Attributes:
        words: as the text has them, also those that the system reads as `<unk>`.
        lines: (N,) the number of each word's line, from 0.
        embeddings: (N, h) float32, of unit length.
    """

    words: list[str]
    lines: Tensor
    embeddings: Tensor

    @classmethod
    def of(cls, model: LinearDynamicalSystem, vocabulary: Vocabulary, file: Path) -> "EmbeddedText":
        """Embed a file, a sentence a line."""
        text = read_lines(file)
        tokens = vocabulary.encode(text, str(file))
        words = [word for line in text for word in line.split()]
        embedded = embed_lines(model.embed, tokens, model.device)
        said = tokens != EOS_ID
        return cls(words, (~said).cumsum(0)[said], embedded[said])

    def write(self, file: Path) -> None:
        """Write ``words``, ``lines`` and ``embeddings`` for `numpy.load`.

        Raises: UserError where the file cannot be written.
        """
        buffer = io.BytesIO()
        np.savez(buffer, words=self.words, lines=self.lines.numpy(), embeddings=self.embeddings.numpy())
        try:
            write_atomic(file, buffer.getvalue())
        except OSError as error:
            raise UserError(f"{file}: cannot be written ({error.strerror})") from None

    def neighbours(self, place: int, count: int) -> list[tuple[float, int]]:
        """Cosine and place of the tokens nearest to one, each of another word than it and than those nearer."""
        cosines = self.embeddings @ self.embeddings[place]
        found, seen = [], {self.words[place]}
        for other in cosines.argsort(descending=True).tolist():
            if self.words[other] not in seen:
                seen.add(self.words[other])
                found.append((float(cosines[other]), other))
                if len(found) == count:
                    break
        return found

    def context(self, place: int) -> str:
        """A token in brackets between a few words of its line."""
        low, high = max(0, place - CONTEXT), place + CONTEXT + 1
        line = self.lines[low:high] == self.lines[place]
        words = [f"[{word}]" if low + i == place else word for i, word in enumerate(self.words[low:high])]
        return " ".join(word for word, same in zip(words, line.tolist(), strict=True) if same)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command: returns its exit code."""
    parser = CommandParser(
        prog="python -m lmzoo.embed",
        description="Write the embedding of every token of a text under a trained linear dynamical system: the mean "
        "of its state given the whole line, scaled so that over the training text it varies alike in all directions, "
        "then to unit length. numpy.load(FILE) has 'words' (N), 'lines' (N, numbers from 0) and 'embeddings' (N, h).",
        epilog="examples: python -m lmzoo.embed outputs/ptb/lds book.txt book.npz; "
        "python -m lmzoo.embed outputs/ptb/lds book.txt --neighbours bank",
    )
    parser.add_argument("run", type=Path, help="the run directory of model=lds, such as outputs/ptb/lds")
    parser.add_argument("text", type=Path, help="a sentence a line, words separated by spaces, UTF-8")
    out = parser.add_mutually_exclusive_group(required=True)
    out.add_argument("file", type=Path, nargs="?", help="the file to write, such as book.npz")
    out.add_argument("--neighbours", metavar="WORD", help="instead print the tokens nearest to those of a word")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (default: auto)")
    options = parser.parse_args(arguments)
    if options.file:
        check_output(options.file, options.text)
    model, vocabulary = load_system(options.run, options.device)
    text = EmbeddedText.of(model, vocabulary, options.text)
    if options.file:
        text.write(options.file)
        print(f"{len(text.words):,} tokens of {len(text.lines.unique()):,} lines, {model.hidden} dimensions each")
        return 0
    places = [place for place, word in enumerate(text.words) if word == options.neighbours]
    if not places:
        raise UserError(f"{options.text}: does not contain '{options.neighbours}'")
    for place in places[:OCCURRENCES]:
        print(f"line {int(text.lines[place]) + 1}: {text.context(place)}")
        for cosine, other in text.neighbours(place, NEIGHBOURS):
            print(f"  {cosine:.2f}  {text.context(other)}")
    if len(places) > OCCURRENCES:
        print(f"… and {len(places) - OCCURRENCES:,} more of '{options.neighbours}'")
    return 0


if __name__ == "__main__":
    run_command(main)
