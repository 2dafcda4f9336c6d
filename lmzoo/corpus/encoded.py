"""Encoding of text files, cached on disk and memory-mapped by later runs."""

import hashlib
import json
import tempfile
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from lmzoo.core.disk_cache import cache_folder, disk_cached, exclusive_lock
from lmzoo.core.errors import UserError
from lmzoo.core.files import atomic_stream, read_pieces, sha256, text_blocks
from lmzoo.core.progress import MB, Bar
from lmzoo.corpus.form import Form
from lmzoo.corpus.subwords import Kind, Subwords, learn_subwords
from lmzoo.corpus.tokenizer import NUMBER, PATTERNS
from lmzoo.corpus.vocabulary import UNK, Lexicon, Vocabulary

RULES = [9, NUMBER.pattern, *(pattern.pattern for pattern in PATTERNS.values())]
"""Part of the cache key: a version, to increase whenever encoding or the file format changes, and the tokenizers."""

SETTLED = 2.0
"""A file modified within this time, in seconds, is read again, since file times are coarse."""

BLOCK = 2**20
"""The number of tokens per block for renumbering and checksums."""

CHECKSUM = 4
"""The length of the CRC-32 at the end of a cache file, in bytes."""


class Limits(NamedTuple):
    """Limits of the vocabulary of a text; see `Vocabulary.of`."""

    min_count: int
    max_size: int | None
    unknown: bool

    def closed(self, words: int) -> bool:
        """Whether they leave out none of so many words of train; other words are errors then, even beside `<unk>`."""
        return self.min_count == 1 and not self.unknown and (self.max_size is None or words < self.max_size)


class Checksums(NamedTuple):
    """The SHA-256 of the concatenated, decompressed files of a text, and that of each file."""

    sha256: str
    files: list[str]


@dataclass(frozen=True)
class Encoded:
    """An encoded text.

    Attributes:
        tokens: (N,) int32, mapped from a file: unread parts take no memory.
        words: the words of the vocabulary.
    """

    tokens: Tensor
    words: list[str]
    sha256: str


class FilePass:
    """Reads the files of a text in order, with a progress bar."""

    def __init__(self, files: Sequence[Path], what: str):
        self.digest, self.digests = hashlib.sha256(), [hashlib.sha256() for _ in files]
        self.on_disk = [file.stat().st_size if file.is_file() else 0 for file in files]
        self.bar = Bar(sum(self.on_disk) // MB, "MB", f"{what} {files[0].name}")
        self.number = self.read = 0  # the index of the current file; bytes read of all

    def seen(self, block: bytes, read: int) -> None:
        """Process a block of the current file, given by ``number``; see `lmzoo.core.files.Seen`."""
        self.digest.update(block)
        self.digests[self.number].update(block)
        self.read = sum(self.on_disk[: self.number]) + read
        self.bar.update(steps=self.read // MB - self.bar.done)

    @property
    def checksums(self) -> Checksums:
        """The checksums of what was read until now."""
        return Checksums(self.digest.hexdigest(), [digest.hexdigest() for digest in self.digests])


def text_checksums(files: Sequence[Path], form: Form) -> Checksums | None:
    """The checksums of files; None for a pipe, which can be read only once.

    They are cached by path, size, times and inode of each file, so that unchanged files are not read again.

    Raises: UserError as `text_bytes` does.
    """
    if any(file.exists() and not file.is_file() and not file.is_dir() for file in files):
        return None

    def compute() -> bytes:
        reading = FilePass(files, "reading")
        with reading.bar:
            for reading.number, file in enumerate(files):
                for _ in text_blocks(file, reading.seen, form.spaced):
                    pass
        return json.dumps(reading.checksums).encode()

    try:
        stats = [file.stat() for file in files]
    except OSError:  # reading reports the error
        return Checksums(*json.loads(compute()))
    key = [[str(f.absolute()), s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino]
           for f, s in zip(files, stats, strict=True)]  # fmt: skip
    changed = max(max(s.st_mtime, s.st_ctime) for s in stats)
    unsettled = time.time() - changed < SETTLED
    return Checksums(*json.loads(compute() if unsettled else disk_cached("sha256", json.dumps(key).encode(), compute)))


def encoded(files: Sequence[Path], sums: Checksums | None, form: Form, words: Vocabulary | Limits) -> Encoded:
    """Encode the text of files in one pass, or return it from the cache.

    Memory grows with the vocabulary, not with the text. The tokens of a pipe, or if the cache is not writable, are in a
    temporary file.

    Args:
        sums: the `text_checksums` of the files.
        words: the vocabulary, or the limits for the text's own.

    Raises: UserError as `read_pieces` and `Vocabulary.encode` do, if a file has changed since its checksum was
        computed, and if the disk is full.
    """
    if sums is None:
        return _encode(files, None, form, words, None)
    of_words: Any = words
    if isinstance(words, Vocabulary):
        of_words = words.closed, sha256("\n".join(words.words).encode("utf-8", "surrogatepass"))
    scores = [*form.pieces.scores.values()] if form.pieces else []
    name = f"text-{sha256(json.dumps([*RULES, sums, form.options, scores, of_words]).encode())}"
    if cached := _cached(name, sums):
        return cached
    with exclusive_lock(name) as path:
        return _cached(name, sums) or _encode(files, sums, form, words, path)


def cached_subwords(files: Sequence[Path], sums: Checksums | None, form: Form) -> Subwords:
    """The subwords learned from files, cached.

    Args:
        sums: as for `encoded`.

    Raises: UserError as `learn_subwords` does, and if a file is a pipe, which can be read only once.
    """
    if sums is None:
        raise UserError(f"corpus.unit={form.unit}: {files[0]} can be read only once", "copy its text into a file")

    def compute() -> bytes:
        pieces = (piece.decode() for file in files for piece in read_pieces(file))
        lines = (form.cleaned(line) for piece in pieces for line in piece.split("\n"))
        return json.dumps(dict(learn_subwords(lines, cast(Kind, form.unit), form.subwords).scores)).encode()

    key = json.dumps([*RULES, sums, form.options]).encode()
    return Subwords(cast(Kind, form.unit), json.loads(disk_cached("subwords", key, compute)))


def _cached(name: str, sums: Checksums) -> Encoded | None:
    """The encoded text in the cache, if it is there and undamaged."""
    try:
        with (cache_folder() / name).open("rb") as stream:
            end = stream.seek(-CHECKSUM, 2)
            return _mapped(stream, sums.sha256) if stream.read() == _crc32(stream, end) else None
    except (OSError, RuntimeError):  # no file, no home directory
        return None


def _encode(
    files: Sequence[Path], sums: Checksums | None, form: Form, words: Vocabulary | Limits, path: Path | None
) -> Encoded:
    """Encode a text into a file at ``path``, or a temporary one if None, and map it."""
    reading = FilePass(files, "encoding")
    vocabulary = Lexicon(form) if isinstance(words, Limits) else Vocabulary(words.words, form, closed=words.closed)
    count = 0
    try:
        with atomic_stream(path) if path else tempfile.TemporaryFile() as stream, reading.bar:
            for reading.number, file in enumerate(files):
                for _, numbers in vocabulary.encode_pieces(read_pieces(file, reading.seen, form.spaced), str(file)):
                    count += len(numbers)
                    stream.write(numbers.int().numpy().tobytes())
            if sums not in (None, reading.checksums):
                raise UserError(f"{files[0]}: the text changed while it was read", "start again when it is complete")
            if isinstance(words, Limits) and isinstance(vocabulary, Lexicon):
                vocabulary = _renumber(stream, vocabulary, words)
            trailer = json.dumps(vocabulary.words).encode()
            stream.write(trailer + count.to_bytes(8, "little"))
            stream.write(_crc32(stream, stream.tell()))
            stream.flush()
            return _mapped(stream, reading.checksums.sha256)
    except OSError as error:
        need = 4 * count * sum(reading.on_disk) / max(reading.read, 1) / 1e9
        where = path.parent if path else tempfile.gettempdir()
        raise UserError(
            f"{where}: cannot be written ({error.strerror}), and the encoded text takes about {need:.2g} GB",
            "set LMZOO_CACHE to a folder with more room",
        ) from None


def _renumber(stream: BinaryIO, lexicon: Lexicon, limits: Limits) -> Vocabulary:
    """The vocabulary of a text; rewrite the stream with its indices, which ends at its end."""
    vocabulary = lexicon.ranked(*limits)
    unk = vocabulary.index.get(UNK, -1)
    number = np.array([vocabulary.index.get(word, unk) for word in lexicon.words], np.int32)
    stream.seek(0)
    while block := stream.read(4 * BLOCK):
        stream.seek(-len(block), 1)
        stream.write(number[np.frombuffer(block, np.int32)].tobytes())
    return vocabulary


def _crc32(stream: BinaryIO, end: int) -> bytes:
    """The CRC-32 of a stream up to ``end``, its position afterwards."""
    stream.seek(0)
    crc = 0
    while block := stream.read(min(4 * BLOCK, end - stream.tell())):
        crc = zlib.crc32(block, crc)
    return crc.to_bytes(CHECKSUM, "little")


def _mapped(stream: BinaryIO, digest: str) -> Encoded:
    """Map what `_encode` has written: the tokens, JSON, the number of tokens, and a checksum."""
    size = stream.seek(-8 - CHECKSUM, 2)
    count = int.from_bytes(stream.read(8), "little")
    stream.seek(4 * count)
    words = json.loads(stream.read(size - 4 * count))
    tokens = np.memmap(stream, np.int32, "c", shape=(count,))
    return Encoded(torch.from_numpy(tokens), words, digest)
