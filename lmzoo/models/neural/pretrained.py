"""Word vectors that a neural model starts from."""

import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, error_prefix
from lmzoo.core.options import Options, Source
from lmzoo.words.vectors.formats import read_vectors

log = logging.getLogger(__name__)


def vectors_of(source: str, words: Sequence[str], option: str) -> tuple[list[int], Tensor]:
    """The places of the words of which a run of vectors or a file has (n, d) vectors; a UserError for none."""
    with error_prefix(option):
        vectors = read_vectors(Path(source))
    places = [*map(vectors.row, words)]
    rows = [row for row, place in enumerate(places) if place is not None]
    if not rows:
        raise UserError(f"{option}={source}: has none of the words of the corpus")
    log.info("%s has vectors of %s of %s words", source, f"{len(rows):,}", f"{len(places):,}")
    return rows, vectors.matrix[[place for place in places if place is not None]]


class PretrainedOptions(Options):
    embedding_from: Source | None = None
    """a run of ``lmzoo vectors``, or a file of word vectors of the same dimension, to initialize input embeddings.
    None: none."""
    embedding_frozen: bool = False
    """whether these embeddings are frozen."""


class Pretrained:
    """The vectors of a run of ``lmzoo vectors``, or of a file, as the first rows of an embedding.

    They are scaled together to the root mean square of the rows whose place they take, unless it is 0. A word without
    a vector keeps the row that was drawn for it.

    Args:
        source: a run or a file; None for no such vectors.
        frozen: whether the embedding, and all that is tied to it, stays as it is in training.
        weight: the (V, d) embedding, or more rows after those of the words.
        options: the names of the options of the source and of d.
    """

    def __init__(self, source: str | None, frozen: bool, weight: Tensor,
                 options: tuple[str, str] = ("model.embedding_from", "model.embedding")):  # fmt: skip
        self.source, self.frozen, self.weight, self.options = source, frozen, weight, options
        weight.requires_grad_(not frozen)

    @torch.no_grad()
    def estimate(self, words: Sequence[str]) -> None:
        """Put in the vectors of ``words``, of the first rows.

        Raises: UserError for another dimension, and for a frozen embedding without a source.
        """
        if self.source is None and self.frozen:
            raise UserError("model.embedding_frozen=true would keep random vectors", "set model.embedding_from=RUN")
        if self.source is None:
            return
        option, dimension = self.options
        rows, vectors = vectors_of(self.source, words, option)
        if (d := vectors.shape[1]) != (size := self.weight.shape[1]):
            raise UserError(f"{dimension}={size}: the vectors of {self.source} have {d}", f"set it to {d}")
        vectors = vectors.to(self.weight)
        if size := float(self.weight[rows].square().mean().sqrt()):  # else they stay as they are
            vectors *= size / vectors.square().mean().sqrt().clamp(min=1e-12)
        self.weight[rows] = vectors
