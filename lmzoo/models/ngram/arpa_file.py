"""n-gram models as ARPA files, the text format of SRILM and KenLM.

A file has three parts: ``\\data\\`` and the number of n-grams of each order; for each order a section of lines
``log10 p(w | h) <tab> h w <tab> log10 backoff(hw)``, where the backoff is optional; ``\\end\\``.
Stolcke, *SRILM - an extensible language modeling toolkit*, ICSLP 2002, manual page ngram-format(5).
"""

import codecs
import contextlib
import math
import re
import sys
from collections.abc import Iterator, Sequence
from io import BufferedReader, TextIOWrapper
from itertools import chain, pairwise
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.files import BLOCK, Lookahead, decompressed, input_stream, non_utf8_format, output_stream
from lmzoo.corpus.lookup import WordTable
from lmzoo.corpus.vocabulary import EOS_ID, UNK
from lmzoo.models.ngram.fields import Fields, numbers
from lmzoo.models.ngram.table import NGramTable
from lmzoo.numerics.hashing import find

BOS, EOS = "<s>", "</s>"

KENLM = b"mmap lm "
"""The beginning of a binary file of KenLM."""

CAPITAL_UNK = b"<UNK>"
"""Stands for `<unk>`, as in KenLM."""

LOG_ZERO = -99.0
"""This number and every lower one stand for log10 0, as in SRILM."""

LN10 = math.log(10)

MISPLACED = -1
"""Stands for the word's number of a sentence boundary where no query can meet it."""

ROWS = 1 << 16
"""n-grams written at a time, with the memory of a few hundred bytes each."""

TEXT = 4 * BLOCK
"""Bytes of n-grams looked up at a time; with fewer, the fixed costs of the look-ups take a fifth of the time."""

LONGEST_LINE = 1 << 16
"""In bytes; no n-gram is that long."""

MOST_ORDERS = 100

MOST_BLANK = 1000
"""Lines without an n-gram between two parts of a file."""


def write_arpa(path: Path, table: NGramTable, words: Sequence[str]) -> None:
    """Write a model, whole or not at all.

    Args:
        path: the file. It is compressed if its name ends with ``.gz``.
        words: the words of the table's unigrams. Word 0 is written as ``</s>`` and as ``<s>``. A unigram beyond the
            last word is left out.

    Raises: UserError for a vocabulary that the format cannot hold, or where the file cannot be written.
    """
    clashing = {BOS, EOS}.intersection(words[1:])
    if clashing:
        raise UserError(
            f"the vocabulary has the word {clashing.pop()}, which ARPA files reserve for sentence boundaries"
        )
    if {UNK, CAPITAL_UNK.decode()} <= {*words}:
        raise UserError(
            f"the vocabulary has both <UNK> and {UNK}, which are one word in ARPA files", "write <unk> in the texts"
        )
    V, first = table.vocabulary_size, table.first_rows()
    sections = [(0, len(words)), *pairwise(first[1:])]  # the rows of each order
    contexts, last = [BOS, *words[1:]], [EOS, *words[1:]]

    def texts(rows: Tensor, n: int) -> list[list[str]]:
        """The words of n-grams, as a column for each place."""
        columns = []
        for _ in range(n - 1):
            keys = table.keys[rows - V]
            columns.insert(0, [last[word] for word in (keys % V).tolist()])
            rows = keys // V
        return [[contexts[word] for word in rows.tolist()], *columns]

    with output_stream(path) as stream:
        file = TextIOWrapper(stream, encoding="utf-8")
        file.write("\\data\\\n")
        file.writelines(f"ngram {n}={end - begin + (n == 1)}\n" for n, (begin, end) in enumerate(sections, start=1))
        for n, (begin, end) in enumerate(sections, start=1):
            file.write(f"\n\\{n}-grams:\n")
            for rows in torch.arange(begin, end).split(len(words) if n == 1 else ROWS):
                columns = [_log10(table.logprob[rows].clamp(max=0)), *texts(rows, n)]
                if n < len(sections):
                    columns.append(_log10(table.backoff[rows]))
                if n == 1:  # row 0 has the probability of </s> and the backoff of <s>
                    beside = LOG_ZERO, EOS, 0.0
                    columns = [[column[0], other, *column[1:]] for column, other in zip(columns, beside, strict=False)]
                    columns[0][:2] = columns[0][1::-1]
                line = "\t".join(["%.9g", " ".join(["%s"] * n), *["%.9g"] * (n < len(sections))]) + "\n"
                file.write(line * len(columns[0]) % tuple(chain.from_iterable(zip(*columns, strict=True))))
        file.write("\n\\end\\\n")
        file.detach()  # flushes, and leaves the stream open


def _log10(values: Tensor) -> list[float]:
    return (values.double() / LN10).clamp(min=LOG_ZERO).tolist()


def holds_arpa(path: Path) -> bool:
    """Whether a file, packed or not, begins as ARPA files do.

    Raises: UserError for a binary file of KenLM, and where the file cannot be read.
    """
    with input_stream(path) as file:
        if file.peek(len(KENLM)).startswith(KENLM):
            raise binary_of_kenlm(path)
        with contextlib.suppress(UserError), decompressed(file, path) as text:
            reader = _Reader(path, text)
            return any(reader.any_line().strip() == b"\\data\\" for _ in range(MOST_BLANK))
    return False


def binary_of_kenlm(path: Path) -> UserError:
    """The error for a binary file of KenLM."""
    return UserError(f"{path}: is a binary file of KenLM", "give the ARPA file from which it was built")


def read_arpa(path: Path) -> tuple[list[str], NGramTable]:
    """Read a model, packed or not.

    Returns: the words of the table's unigrams, and the table. ``</s>`` is the first word, and `<unk>` is always among
        them, with probability zero if the file has none. n-grams that no query can meet are left out: those with
        ``<s>`` after the first word or ``</s>`` before the last. Backoffs of n-grams that end in ``</s>``, as of MITLM
        and CMU's lmtool, are 0, since no word follows in the sentence.

    Raises: UserError for a file that cannot be read. It names the first line that is not as expected.
    """
    with input_stream(path) as file, decompressed(file, path) as text:
        return _Reader(path, text).read()


class _Reader:
    """A file that is being read: its text as it is unpacked, and the number of the line that was read last."""

    def __init__(self, path: Path, text: BufferedReader):
        self.path, self.text, self.line = path, Lookahead(text), 0
        begin = self.text.peek(8)
        form, advice = non_utf8_format(begin)
        if begin.startswith(KENLM):
            raise binary_of_kenlm(path)
        if form:
            raise UserError(f"{path}: is {form}, no ARPA file", advice)
        self.text.read_exactly(len(codecs.BOM_UTF8) * begin.startswith(codecs.BOM_UTF8))

    def any_line(self) -> bytes:
        """The next line with a line feed; nothing at the end of the file."""
        if not self.text.peek(1):
            return b""
        self.line += 1
        try:
            return self.text.read_until(b"\n", LONGEST_LINE - 1) + b"\n"
        except ValueError:
            self.fail(self.line, f"expected a line of fewer than {LONGEST_LINE:,} bytes")

    def block(self, most: int) -> Fields:
        """The fields of the next lines, at most so many; `line` stays."""
        text = self.text.peek(TEXT)
        if 0 < len(text) < TEXT and not text.endswith(b"\n"):  # the end of the file
            text += b"\n"
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))[:most] + 1
        long = np.flatnonzero(np.diff(ends, prepend=0) > LONGEST_LINE)
        if len(long) or (text and not len(ends)):
            line = self.line + 1 + int(long[0] if len(long) else 0)
            self.fail(line, f"expected a line of fewer than {LONGEST_LINE:,} bytes")
        text = text[: ends[-1] if len(ends) else 0]
        self.text.read_exactly(min(len(text), len(self.text.peek(len(text)))))
        return Fields(text)

    def fail(self, line: int, problem: str) -> NoReturn:
        raise UserError(f"{self.path}, line {line}: {problem}")

    def next_line(self, expected: str) -> bytes:
        """The next line that is not blank."""
        for _ in range(MOST_BLANK):
            if not (line := self.any_line()):
                self.fail(self.line + 1, f"expected {expected}, but the file ends here")
            if line := line.strip():
                return line
        self.fail(self.line, f"expected {expected} by now")

    def expect(self, line: bytes, expected: str) -> None:
        if line != expected.encode():
            self.fail(self.line, f"expected {expected}, found {_shown(line)}")

    def read(self) -> tuple[list[str], NGramTable]:
        sizes, line = self.sizes()
        self.expect(line, "\\1-grams:")
        words, logprob, backoff = self.unigrams(sizes[0])
        names = [*words[1:], CAPITAL_UNK.decode(), BOS, EOS]
        places = WordTable({name: place for place, name in enumerate(names)}, as_bytes=True)
        ordinary = [*range(1, len(words)), words.index(UNK)]
        first, inside, last = (
            torch.tensor([*ordinary, *marks])
            for marks in ((EOS_ID, MISPLACED), (MISPLACED, MISPLACED), (MISPLACED, EOS_ID))
        )
        sections = [(torch.empty(0, dtype=torch.int64), logprob, backoff)]
        for n in range(2, len(sizes) + 1):
            section = f"\\{n}-grams:"
            self.expect(self.next_line(section), section)
            tables = [keys for keys, *_ in sections[1:]]
            sections.append(self.ngrams(tables, len(words), sizes[n - 1], places, [first, *[inside] * (n - 2), last]))
        self.expect(self.next_line("\\end\\"), "\\end\\")
        while line := self.any_line():
            if line.strip():
                self.fail(self.line, f"expected nothing after \\end\\, found {_shown(line)}")
        while len(sections) > 1 and not len(sections[-1][0]):
            sections.pop()
        sections[-1] = *sections[-1][:2], torch.empty(0)  # no word follows the longest n-grams
        return words, NGramTable(len(words), *_joined(sections))

    def sizes(self) -> tuple[list[int], bytes]:
        """How many n-grams of each order the file announces, and the line after that."""
        while self.next_line("\\data\\") != b"\\data\\":
            if self.line > MOST_BLANK:
                self.fail(self.line, "expected \\data\\ by now; is this an ARPA file, not one in a binary format?")
        sizes: list[int] = []
        while match := re.fullmatch(rb"ngram\s+(\d{1,9})\s*=\s*(\d{1,18})", line := self.next_line("ngram 1=…")):
            n, size = map(int, match.groups())
            if n != len(sizes) + 1 or n > MOST_ORDERS:
                self.fail(self.line, f"expected the number of {len(sizes) + 1}-grams, found {_shown(line)}")
            sizes.append(size)
        if not sizes:
            self.fail(self.line, f"expected ngram 1=…, found {_shown(line)}")
        return sizes, line

    def blocks(self, n: int, size: int) -> Iterator[Fields]:
        """The fields of a section's lines, a block at a time; meanwhile `line` is the line before the block."""
        while size:
            fields = self.block(size)
            counts = np.diff(fields.first)
            if not len(counts):
                self.fail(self.line + 1, f"expected {size:,} more {n}-grams, but the file ends here")
            if len(wrong := np.flatnonzero((counts != n + 1) & (counts != n + 2))):
                line = int(wrong[0])
                self.fail(
                    self.line + 1 + line,
                    f"expected {size - line:,} more {n}-grams, each with its log10 probability before it and "
                    f"perhaps a backoff after it, found {_shown(b' '.join(fields.of_line(line)))}",
                )
            yield fields
            self.line += len(counts)
            size -= len(counts)

    def numbers(
        self, fields: Fields, which: NDArray[np.int64], lines: NDArray[np.int64], what: str, most: float
    ) -> Tensor:
        """(N,) numbers of fields of some lines, from log10 to nats."""
        values = numbers(fields, which)
        if len(wrong := np.flatnonzero(~(values <= most))):  # nor is NaN
            found = _shown(fields.field(int(which[wrong[0]])))
            self.fail(self.line + 1 + int(lines[wrong[0]]), f"expected {what}, found {found}")
        return torch.from_numpy(np.where(values > LOG_ZERO, values * LN10, -np.inf).astype(np.float32))

    def values(self, fields: Fields, n: int) -> tuple[Tensor, Tensor]:
        """(lines,) log-probabilities and (lines,) backoffs of a block, in nats."""
        first, end = fields.first[:-1], fields.first[1:]
        logprob = self.numbers(fields, first, np.arange(len(first)), "a log10 probability of at most 0", most=0.0)
        backoff, weighted = torch.zeros(len(first)), np.flatnonzero(end - first == n + 2)
        weights = self.numbers(fields, end[weighted] - 1, weighted, "a log10 backoff", most=sys.float_info.max)
        return logprob, backoff.index_copy_(0, torch.from_numpy(weighted), weights)

    def unigrams(self, size: int) -> tuple[list[str], Tensor, Tensor]:
        """The words, as `read_arpa` returns them, and their (V,) log-probabilities and (V,) backoffs."""
        before, names, parts = self.line, [], []
        for fields in self.blocks(1, size):
            found = [fields.field(field + 1) for field in fields.first[:-1]]
            names += [UNK.encode() if name == CAPITAL_UNK else name for name in found]
            parts.append(self.values(fields, 1))
        place = {name: i for i, name in reversed(list(enumerate(names)))}
        for i, name in enumerate(names):
            if place[name] != i:
                self.fail(before + 1 + i, f"expected another 1-gram, found {_shown(name)} again")
        if EOS.encode() not in place:
            self.fail(self.line, f"expected {EOS} among the 1-grams")
        logprob, backoff = (torch.cat(column) for column in zip(*parts, strict=True))
        ordinary = [i for i, name in enumerate(names) if name not in (BOS.encode(), EOS.encode())]
        words = [EOS]
        for i in ordinary:
            try:
                words.append(names[i].decode())
            except UnicodeDecodeError:
                self.fail(before + 1 + i, f"expected UTF-8, found {_shown(names[i])}")
        context = place.get(BOS.encode())
        logprob = logprob[[place[EOS.encode()], *ordinary]]
        backoff = torch.cat([backoff[[context]] if context is not None else torch.zeros(1), backoff[ordinary]])
        if UNK not in words:
            words.append(UNK)
            logprob = torch.cat([logprob, torch.tensor([-torch.inf])])
            backoff = torch.cat([backoff, torch.zeros(1)])
        return words, logprob, backoff

    def ngrams(
        self, tables: list[Tensor], V: int, size: int, places: WordTable, columns: list[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The keys of a section's n-grams, as in `NGramTable`, their log-probabilities and backoffs, in nats.

        Args:
            tables: the keys of each order from 2 to n - 1.
            V: the number of unigrams.
            places: of words; one has the number at its place in the column.
        """
        n, begin, parts, lines = len(columns), self.line + 1, [], []
        for fields in self.blocks(n, size):
            words = []
            for k, column in enumerate(columns, start=1):
                place = torch.from_numpy(places.find(fields.select(fields.first[:-1] + k)))
                for i in (place < 0).nonzero()[:1, 0].tolist():
                    unknown = _shown(fields.of_line(i)[k])
                    self.fail(self.line + 1 + i, f"expected words that are among the 1-grams, found {unknown}")
                words.append(column[place])
            row, begins = words[0], V
            for keys, word in zip(tables, words[1:-1], strict=True):
                place = find(keys, row * V + word)
                row = torch.where(place < 0, -1, place + begins)
                begins += len(keys)
            placed = torch.stack(words).ne(MISPLACED).all(0)
            for i in (placed & (row < 0)).nonzero()[:1, 0].tolist():
                self.fail(
                    self.line + 1 + i,
                    f"expected the first {n - 1} words of this {n}-gram among the {n - 1}-grams; KenLM refuses most "
                    f"such files, and SRILM leaves the {n}-gram out",
                )
            logprob, backoff = self.values(fields, n)
            backoff = backoff.where(words[-1] != EOS_ID, 0.0)
            parts.append(((row * V + words[-1])[placed], logprob[placed], backoff[placed]))
            lines.append(placed)
        if not parts:
            return torch.empty(0, dtype=torch.int64), torch.empty(0), torch.empty(0)
        keys, logprob, backoff = _joined(parts)
        if not (keys.diff() > 0).all():
            keys, order = keys.sort(stable=True)
            for i in (keys.diff() == 0).nonzero()[:1, 0].tolist():
                line = torch.cat(lines).nonzero()[:, 0][order] + begin
                self.fail(int(line[i + 1]), f"expected another {n}-gram, found that of line {line[i]} again")
            logprob, backoff = logprob[order], backoff[order]
        return keys, logprob, backoff


def _joined(rows: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
    """Concatenate each column and empty the list, so that only one column at a time is in memory twice."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    rows.clear()
    third, second, first = (torch.cat(columns.pop()) for _ in range(3))
    return first, second, third


def _shown(text: bytes) -> str:
    """Bytes of a file for an error message."""
    shown = b" ".join(text.split()).decode(errors="replace")
    return f"'{shown[:60]}…'" if len(shown) > 60 else f"'{shown}'"
