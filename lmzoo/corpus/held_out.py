"""Splits held out from the end of train: ``corpus.valid=5%``."""

import contextlib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lmzoo.core.disk_cache import exclusive_lock
from lmzoo.core.errors import UserError, pluralize
from lmzoo.core.files import TABLES, atomic_stream, decompressed, input_stream, read_pieces, text_ending
from lmzoo.corpus.encoded import text_checksums
from lmzoo.corpus.form import Form

Files = Mapping[str, Sequence[Path]]


class SplitFiles(NamedTuple):
    """The files of each split after holding out.

    Attributes:
        files: the files of each split; a part of a file is a file in the cache.
        parts: for each such cache file, the original file, and the number of lines before it there.
        cut_from: see `Corpus`.
        notes: the line numbers of each held-out split.
    """

    files: dict[str, Sequence[Path]]
    parts: dict[Path, tuple[Path, int]]
    cut_from: dict[str, dict[str, int]]
    notes: dict[str, str]

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """A context in which errors about a part are reported with its original file and line number."""
        try:
            yield
        except UserError as error:
            problem = error.problem
            for part, (file, before) in self.parts.items():
                if (rest := problem.removeprefix(str(part))) != problem:
                    rest, lines = re.subn(
                        r"(?<=\bline )\d+", lambda line, n=before: str(int(line[0]) + n), rest, count=1
                    )
                    if before and not lines:
                        rest = f", from line {before + 1} on{rest}"
                    raise UserError(f"{file}{re.sub(r', byte [0-9]+', '', rest)}", error.advice) from None
            raise


def share(named: object) -> float | None:
    """0.05 for ``5%``; None if it is not a percentage, such as a file."""
    number = re.fullmatch(r"(\d+(?:\.\d+)?)%", named) if isinstance(named, str) else None
    return float(number[1]) / 100 if number else None


def split_holdout(files: Files, shares: Mapping[str, float], form: Form) -> SplitFiles:
    """Files of all splits, where held-out shares are the last lines of train, valid before test.

    Args:
        files: the files of the other splits, including train.

    Raises: UserError if train or a held-out split would be empty, train is a pipe, which can be read only once, or the
        cache is not writable.
    """
    asked = ", ".join(f"corpus.{split}={100 * part:g}%" for split, part in shares.items())
    if not 0 < sum(shares.values()) < 1 or not all(shares.values()):
        raise UserError(f"{asked}: holds out nothing of train, or all of it", "hold out a few per cent, such as 5%")
    sums = text_checksums(files["train"], form)
    if sums is None:
        raise UserError(f"{asked}: {files['train'][0]} can be read only once", "copy its text into a file")
    lines = [_lines(file) for file in files["train"]]
    sizes = {split: round(shares[split] * sum(lines)) for split in ("valid", "test") if split in shares}
    if sum(lines) <= len(lines):
        for file in files["train"]:
            for _ in read_pieces(file, of_words=form.spaced):  # reports an empty text, and isolated carriage returns
                pass
    if not all(sizes.values()) or sum(sizes.values()) >= sum(lines):
        raise UserError(
            f"{asked}: train has {pluralize(sum(lines), 'line')}, too few",
            "write a sentence a line, or name a file for each split",
        )
    parts: dict[Path, tuple[Path, int]] = {}
    cut_from, splits, notes, begin = dict[str, dict[str, int]](), dict(files), {}, 0
    for split, size in {"train": sum(lines) - sum(sizes.values()), **sizes}.items():
        end, first, found = begin + size, 0, []
        for file, number, sha256 in zip(files["train"], lines, sums.files, strict=True):
            a, b = max(0, begin - first), min(number, end - first)
            if a == 0 and b == number:
                found.append(file)
            elif a < b:
                found.append(_part(file, sha256, a, b, asked))
                parts[found[-1]] = file, a
                cut_from.setdefault(split, {})[sha256] = b if split == "train" else a
            first += number
        splits[split] = found
        if split != "train":
            notes[split] = f"lines {begin + 1:,} to {end:,} of train's {sum(lines):,}"
        begin = end
    return SplitFiles(splits, parts, cut_from, notes)


def _lines(file: Path) -> int:
    """The number of lines of a file."""
    with input_stream(file) as stream, decompressed(stream, file) as text:
        return sum(1 for _ in text)


def _part(file: Path, sha256: str, begin: int, end: int, asked: str) -> Path:
    """A file in the cache with lines ``begin`` to ``end``, from 0, of another; it has the suffix of a table."""
    ending = text_ending(file) if text_ending(file) in TABLES else ".txt"
    with exclusive_lock(f"lines-{sha256}-{begin}-{end}{ending}") as path:
        if path is None:
            raise UserError(f"{asked}: the cache is not writable", "set LMZOO_CACHE to a writable folder")
        if not path.exists():
            digest = hashlib.sha256()
            with atomic_stream(path) as part, input_stream(file) as stream, decompressed(stream, file) as text:
                for number, line in enumerate(text):
                    digest.update(line)
                    if begin <= number < end:
                        part.write(line)
                if digest.hexdigest() != sha256:
                    raise UserError(f"{file}: has changed while it was read", "run the command again")
        return path
