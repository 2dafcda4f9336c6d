"""Counting n-grams in files, in bounded memory: sorted runs that are merged.

Knuth, *The Art of Computer Programming* 3, 2nd edition, 1998, section 5.4; for n-grams Heafield et al., *Scalable
modified Kneser-Ney language model estimation*, ACL 2013, section 3.1.

The n-grams of each order are counted in pieces of the text. Those of a piece, a *run*, are sorted in memory and written
to a file. Then the beginnings of all runs are read, merged and numbered, and those that follow, and so on. Each place
of the text keeps which n-gram of its run ends there; its number among all is looked up when they are numbered.
"""

import math
import tempfile
import weakref
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.models.ngram.counts import Order, number_type, unigrams

BYTES = 104
"""What sorting takes for each token of a run, and merging for each n-gram that is read at once."""
LEAST_READ = 2**12
"""So many n-grams of a run, at least, are read at once, since each reading has its cost."""


class Stored:
    """A vector in a temporary file, read and written slice by slice. The file is gone when nobody has the vector."""

    def __init__(self, kind: torch.dtype):
        self.kind, self.size = kind, 0
        self.stream = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the vector
        weakref.finalize(self, self.stream.raw.close)  # without writing what a full disk has refused

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, rows: slice, /) -> Tensor:
        begin, end, _ = rows.indices(self.size)
        values = torch.empty(max(0, end - begin), dtype=self.kind)
        self.stream.seek(begin * self.kind.itemsize)
        self.stream.readinto(values.numpy().data)
        return values

    def __setitem__(self, rows: slice, values: Tensor) -> None:
        self.stream.seek(rows.start * self.kind.itemsize)
        self.stream.write(values.to(self.kind).numpy().data)
        self.stream.flush()
        self.size = max(self.size, rows.stop)

    def append(self, values: Tensor) -> None:
        self[self.size : self.size + len(values)] = values


class Runs:
    """The n-grams of one order, run after run, each ascending and without repetition.

    Attributes:
        keys, suffix, counts: as in `Order`, but counted in a run.
        begins: the row of the first n-gram of each run, and the number of rows.
    """

    def __init__(self, kind: torch.dtype):
        self.keys, self.suffix, self.counts = Stored(torch.int64), Stored(kind), Stored(kind)
        self.begins = [0]

    def sort(self, keys: Tensor, suffix: Tensor) -> Tensor:
        """Append a run of (P,) n-grams, in any order, and return which n-gram of the run each is."""
        distinct, inverse, counts = torch.unique(keys, return_inverse=True, return_counts=True)
        self.keys.append(distinct)
        self.suffix.append(suffix.new_empty(len(distinct)).scatter_(0, inverse, suffix))
        self.counts.append(counts)
        self.begins.append(len(self.keys))
        return inverse

    def merged(self, read: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """All n-grams, ascending: keys, suffix and counts, part by part; so many n-grams of each run are read at once.

        The keys of the runs give way to the n-grams' rows among all.
        """
        places, ends, row = self.begins[:-1], self.begins[1:], 0
        while places != ends:
            heads = [self.keys[place : min(place + read, end)] for place, end in zip(places, ends, strict=True)]
            cut = [int(h[-1]) for h, place, end in zip(heads, places, ends, strict=True) if place + len(h) < end]
            bound = min(cut, default=torch.iinfo(torch.int64).max)  # smaller ones are in no rest of a run
            taken = [int(torch.searchsorted(head, bound, right=True)) for head in heads]
            slices = [slice(place, place + size) for place, size in zip(places, taken, strict=True)]
            keys = torch.cat([head[:size] for head, size in zip(heads, taken, strict=True)])
            distinct, inverse = torch.unique(keys, return_inverse=True)
            suffix = torch.cat([self.suffix[head] for head in slices])
            counts = torch.cat([self.counts[head] for head in slices])
            yield (
                distinct,
                suffix.new_empty(len(distinct)).scatter_(0, inverse, suffix),
                counts.new_zeros(len(distinct)).scatter_add_(0, inverse, counts),
            )
            for head, rows in zip(slices, inverse.split(taken), strict=True):
                self.keys[head] = rows + row
            row += len(distinct)
            places = [head.stop for head in slices]


def count_in_files(tokens: Tensor, vocabulary_size: int, order: int, memory: float) -> list[Order]:
    """`count_ngrams` in so much memory, in GiB; unigrams are in memory, all others in temporary files.

    Raises: UserError where the memory is too small to merge the runs of so long a text, and where the disk is full.
    """
    piece = int(memory * 2**30 / BYTES)
    least = min(len(tokens), math.sqrt(LEAST_READ * len(tokens)))
    if piece < least:
        gib = math.ceil(1000 * least * BYTES / 2**30) / 1000
        raise UserError(f"model.memory={memory}: too little for a text of {len(tokens):,} tokens",
                        f"give at least {gib}, or null")  # fmt: skip
    small = number_type(tokens)
    try:
        return _counted(tokens, vocabulary_size, order, max(1, min(piece, len(tokens))), small)
    except OSError as error:
        need = len(tokens) * ((8 + 2 * small.itemsize) * order + 3 * small.itemsize) / 1e9
        raise UserError(
            f"{tempfile.gettempdir()}: cannot be written ({error.strerror}), and counting takes up to {need:.2g} GB",
            "set TMPDIR to a folder with more room",
        ) from None


def _counted(tokens: Tensor, vocabulary_size: int, order: int, piece: int, small: torch.dtype) -> list[Order]:
    words = Stored(small)  # (T + 1,) a 0 ends and begins sentences
    words.append(torch.tensor([EOS_ID]))
    for part in tokens.split(piece):
        words.append(part)
    pieces = [slice(begin, min(begin + piece, len(tokens))) for begin in range(0, len(tokens), piece)]
    orders: list[Order] = [unigrams(tokens, vocabulary_size, small)]
    first, begins = 0, 1  # the row of the first context; how many contexts begin with <s>
    index = words  # (T + 1,) which n-gram of the order below ends at each place; -1 where none does
    for n in range(2, order + 1):
        runs, ends = Runs(small), Stored(small)
        ends.append(torch.tensor([-1]))
        for part in pieces:
            word, lower = (column[part.start : part.stop + 1] for column in (words, index))
            context = lower[:-1] >= 0
            if n > 2:  # beyond <s> alone, no context ends with word 0
                context &= word[:-1] != EOS_ID
            place = context.nonzero()[:, 0]
            keys = (lower[place].long() + first) * vocabulary_size + word[place + 1]
            inverse = runs.sort(keys, lower[place + 1])
            ends.append(torch.full_like(word[1:], -1).index_copy_(0, place, inverse.to(small)))
        columns = Stored(torch.int64), Stored(small), Stored(small)
        initial, bound = 0, (first + begins) * vocabulary_size
        for merged in runs.merged(max(1, piece // len(pieces))):
            initial += int(torch.searchsorted(merged[0], bound))
            for column, values in zip(columns, merged, strict=True):
                column.append(values)
        for part, run in zip(pieces, pairwise(runs.begins), strict=True):
            after = slice(part.start + 1, part.stop + 1)
            rows = torch.cat([runs.keys[slice(*run)], torch.tensor([-1])])  # that of n-gram -1 is -1
            ends[after] = rows[ends[after]]
        contexts = len(orders[-1].keys)
        orders.append(Order(*columns, initial, contexts, first, vocabulary_size))
        first, begins, index = first + contexts, initial, ends
    return orders
