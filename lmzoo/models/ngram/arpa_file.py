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
from dataclasses import replace
from functools import partial
from io import BufferedReader, TextIOWrapper
from itertools import islice, pairwise, repeat
from operator import itemgetter
from pathlib import Path
from typing import NoReturn, TextIO

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.files import foreign, input_stream, output_stream, unpacked
from lmzoo.corpus.vocabulary import EOS_ID, UNK
from lmzoo.models.ngram.table import NGramTable

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

CHUNK = 1 << 12
"""Lines parsed at a time."""

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
        raise UserError(f"the vocabulary has the word {clashing.pop()}, which ARPA files keep for sentence boundaries")
    if {UNK, CAPITAL_UNK.decode()} <= {*words}:
        raise UserError(
            f"the vocabulary has both <UNK> and {UNK}, which are one word in ARPA files", "write <unk> in the texts"
        )
    with output_stream(path) as stream:
        file = TextIOWrapper(stream, encoding="utf-8")
        _write(file, table, words)
        file.detach()  # flushes, and leaves the stream open


def _write(file: TextIO, table: NGramTable, words: Sequence[str]) -> None:
    V, first = table.vocabulary_size, table.first_rows()
    sections = [(0, len(words)), *pairwise(first[1:])]  # the rows of each order
    logprobs, backoffs = (
        (values.double() / LN10).clamp(min=LOG_ZERO).tolist() for values in (table.logprob.clamp(max=0), table.backoff)
    )
    file.write("\\data\\\n")
    file.writelines(f"ngram {n}={end - begin + (n == 1)}\n" for n, (begin, end) in enumerate(sections, start=1))
    contexts, last = [BOS, *words[1:]], [EOS, *words[1:]]
    for n, (begin, end) in enumerate(sections, start=1):
        logprob, backoff = logprobs[begin:end], backoffs[begin:end]
        if n == 1:  # row 0 has the probability of </s> and the backoff of <s>
            ngrams, logprob, backoff = [BOS, *last], [LOG_ZERO, *logprob], [*backoff[:1], 0.0, *backoff[1:]]
        else:
            keys = table.keys[begin - V : end - V]
            prefix, word = (keys // V - first[n - 2]).tolist(), (keys % V).tolist()
            ngrams = contexts = [f"{contexts[p]} {last[w]}" for p, w in zip(prefix, word, strict=True)]
        endings = (f"\t{weight:.9g}\n" for weight in backoff) if n < len(sections) else repeat("\n", len(ngrams))
        file.write(f"\n\\{n}-grams:\n")
        file.writelines(f"{p:.9g}\t{ngram}{ending}" for p, ngram, ending in zip(logprob, ngrams, endings, strict=True))
    file.write("\n\\end\\\n")


def holds_arpa(path: Path) -> bool:
    """Whether a file, packed or not, begins as ARPA files do; a UserError where it cannot be read."""
    with input_stream(path) as file, contextlib.suppress(UserError), unpacked(file, path) as text:
        reader = _Reader(path, text)
        return any(line.strip() == b"\\data\\" for line in islice(reader.lines, MOST_BLANK))
    return False


def read_arpa(path: Path) -> tuple[list[str], NGramTable]:
    """Read a model, packed or not.

    Returns: the words of the table's unigrams, and the table. ``</s>`` is the first word, and `<unk>` is always among
        them, with probability zero if the file has none. n-grams that no query can meet are left out: those with
        ``<s>`` after the first word or ``</s>`` before the last. Backoffs of n-grams that end in ``</s>``, as of MITLM
        and CMU's lmtool, are 0, since no word follows in the sentence.

    Raises: UserError for a file that cannot be read. It names the first line that is not as expected.
    """
    with input_stream(path) as file, unpacked(file, path) as text:
        return _Reader(path, text).read()


class _Reader:
    """A file that is being read, its text as it is unpacked, and the number of the line."""

    def __init__(self, path: Path, text: BufferedReader):
        self.path, self.text = path, text
        begin = text.peek(8)
        form, advice = foreign(begin)
        if begin.startswith(KENLM):
            raise UserError(f"{path}: is a binary file of KenLM", "give the ARPA file that it was made from")
        if form:
            raise UserError(f"{path}: is {form}, no ARPA file", advice)
        self.lines = self.all_lines()
        self.line = 0  # the number of the line that was read last

    def all_lines(self) -> Iterator[bytes]:
        for number, line in enumerate(iter(partial(self.text.readline, LONGEST_LINE), b""), start=1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if len(line) == LONGEST_LINE:
                self.fail(number, f"expected a line of fewer than {LONGEST_LINE:,} bytes")
            yield line

    def next_lines(self, most: int) -> list[bytes]:
        """The next lines, none at the end of the file; `line` stays."""
        return list(islice(self.lines, most))

    def fail(self, line: int, problem: str) -> NoReturn:
        raise UserError(f"{self.path}, line {line}: {problem}")

    def next_line(self, expected: str) -> bytes:
        """The next line that is not blank."""
        for _ in range(MOST_BLANK):
            if not (lines := self.next_lines(1)):
                self.fail(self.line + 1, f"expected {expected}, but the file ends here")
            self.line += 1
            if line := lines[0].strip():
                return line
        self.fail(self.line, f"expected {expected} by now")

    def expect(self, line: bytes, expected: str) -> None:
        if line != expected.encode():
            self.fail(self.line, f"expected {expected}, found {_shown(line)}")

    def read(self) -> tuple[list[str], NGramTable]:
        sizes, line = self.sizes()
        self.expect(line, "\\1-grams:")
        words, logprob, backoff = self.unigrams(sizes[0])
        table = NGramTable(len(words), torch.empty(0, dtype=torch.int64), logprob, backoff)
        number = {word.encode(): number for number, word in enumerate(words) if number}
        number[CAPITAL_UNK] = number[UNK.encode()]
        first = {**number, BOS.encode(): EOS_ID, EOS.encode(): MISPLACED}
        inside = {**number, BOS.encode(): MISPLACED, EOS.encode(): MISPLACED}
        last = {**number, BOS.encode(): MISPLACED, EOS.encode(): EOS_ID}
        for n in range(2, len(sizes) + 1):
            section = f"\\{n}-grams:"
            self.expect(self.next_line(section), section)
            table = self.ngrams(table, n, sizes[n - 1], [first, *[inside] * (n - 2), last])
        self.expect(self.next_line("\\end\\"), "\\end\\")
        while lines := self.next_lines(CHUNK):
            for line in lines:
                self.line += 1
                if line.strip():
                    self.fail(self.line, f"expected nothing after \\end\\, found {_shown(line)}")
        return words, replace(table, backoff=table.backoff[: table.first_rows()[-2]])

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

    def chunks(self, n: int, size: int) -> Iterator[list[list[bytes]]]:
        """The fields of a section's lines, `CHUNK` lines at a time; meanwhile `line` is the line before the chunk."""
        done = 0
        while done < size:
            rows = [line.split() for line in self.next_lines(min(CHUNK, size - done))]
            if not rows:
                self.fail(self.line + 1, f"expected {size - done:,} more {n}-grams, but the file ends here")
            if not {n + 1, n + 2}.issuperset(map(len, rows)):
                wrong = next(i for i, row in enumerate(rows) if len(row) not in (n + 1, n + 2))
                self.fail(
                    self.line + 1 + wrong,
                    f"expected {size - done - wrong:,} more {n}-grams, each with its log10 probability before it and "
                    f"perhaps a backoff after it, found {_shown(b' '.join(rows[wrong]))}",
                )
            yield rows
            self.line += len(rows)
            done += len(rows)

    def numbers(self, fields: list[bytes], what: str, most: float) -> Tensor:
        """(lines,) numbers of a chunk, from log10 to nats."""
        try:
            values = torch.tensor(list(map(float, fields)), dtype=torch.float64)
        except ValueError:
            values = torch.tensor([_number(field) for field in fields], dtype=torch.float64)
        if not (values <= most).all():  # nor is NaN
            wrong = int((~(values <= most)).nonzero()[0])
            self.fail(self.line + 1 + wrong, f"expected {what}, found {_shown(fields[wrong])}")
        return torch.where(values > LOG_ZERO, values * LN10, -torch.inf).float()

    def values(self, rows: list[list[bytes]], n: int) -> tuple[Tensor, Tensor]:
        """(lines,) log-probabilities and (lines,) backoffs of a chunk, in nats."""
        logprob = self.numbers(list(map(itemgetter(0), rows)), "a log10 probability of at most 0", most=0.0)
        fields = [row[n + 1] if len(row) > n + 1 else b"0" for row in rows]
        return logprob, self.numbers(fields, "a log10 backoff", most=sys.float_info.max)

    def unigrams(self, size: int) -> tuple[list[str], Tensor, Tensor]:
        """The words, as `read_arpa` returns them, and their (V,) log-probabilities and (V,) backoffs."""
        before, names, parts = self.line, [], []
        for rows in self.chunks(1, size):
            names += [UNK.encode() if row[1] == CAPITAL_UNK else row[1] for row in rows]
            parts.append(self.values(rows, 1))
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

    def ngrams(self, table: NGramTable, n: int, size: int, columns: list[dict[bytes, int]]) -> NGramTable:
        """The table with its n-grams added; the words of each column are numbered by the column's dictionary."""
        before, parts = self.line, []
        for rows in self.chunks(n, size):
            numbers = [list(map(column.get, map(itemgetter(k), rows))) for k, column in enumerate(columns, start=1)]
            for i, row in enumerate(zip(*numbers, strict=True)) if any(None in column for column in numbers) else ():
                if None in row:
                    unknown = rows[i][1 + row.index(None)]
                    self.fail(self.line + 1 + i, f"expected words that are among the 1-grams, found {_shown(unknown)}")
            parts.append((torch.tensor(numbers), *self.values(rows, n)))  # (n, lines), (lines,), (lines,)
        if not parts:
            return table
        words, logprob, backoff = (torch.cat(column, dim=-1) for column in zip(*parts, strict=True))
        row = words[0]
        for word in words[1:-1]:
            row = table.child(row, word)
        placed = (words != MISPLACED).all(0)
        for i in (placed & (row < 0)).nonzero()[:1, 0].tolist():
            self.fail(
                before + 1 + i,
                f"expected the first {n - 1} words of this {n}-gram among the {n - 1}-grams; KenLM refuses most such "
                f"files, and SRILM leaves the {n}-gram out",
            )
        line = torch.arange(before + 1, before + 1 + size)[placed]
        keys, order = (row * table.vocabulary_size + words[-1])[placed].sort(stable=True)
        for i in (keys.diff() == 0).nonzero()[:1, 0].tolist():
            self.fail(int(line[order[i + 1]]), f"expected another {n}-gram, found that of line {line[order[i]]} again")
        return replace(
            table,
            keys=torch.cat([table.keys, keys]),
            logprob=torch.cat([table.logprob, logprob[placed][order]]),
            backoff=torch.cat([table.backoff, backoff.where(words[-1] != EOS_ID, 0.0)[placed][order]]),
        )


def _number(field: bytes) -> float:
    try:
        return float(field)
    except ValueError:
        return math.nan


def _shown(text: bytes) -> str:
    """Bytes of a file for an error message."""
    shown = b" ".join(text.split()).decode(errors="replace")
    return f"'{shown[:60]}…'" if len(shown) > 60 else f"'{shown}'"
