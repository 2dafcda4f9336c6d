"""Word vectors of existing runs: those of a language model, and those of several methods side by side."""

import logging
from collections.abc import Sequence
from pathlib import Path

import torch

from lmzoo.core.errors import UserError, nearest
from lmzoo.core.options import Count, NonNegative, Source, configured
from lmzoo.corpus import Corpus
from lmzoo.words.vectors.formats import read_vectors
from lmzoo.words.vectors.method import Method, MethodOptions, methods

log = logging.getLogger(__name__)


class TypeOptions(MethodOptions):
    run: Source | None = None
    """folder of a run of ``lmzoo train``, with the vocabulary of the corpus."""
    part: str = "input"
    """matrix of the model: input, output or states, see `LanguageModel.word_vectors`."""
    min_count: Count = 5


@methods.register("type")
class TypeVectors(Method):
    """The vectors of a run of ``lmzoo train``: the static word vectors of a language model."""

    @configured(TypeOptions)
    def __init__(self, options: TypeOptions):
        if options.run is None:
            raise UserError("method=type needs method.run=FOLDER, a run of lmzoo train")
        super().__init__(options.min_count)
        self.run, self.part = options.run, options.part

    def start(self, corpus: Corpus, seed: int) -> None:
        super().start(corpus, seed)
        parts = self.open_vectors("method.run", self.run)
        if self.part not in parts:
            raise UserError(f"method.part={self.part}: the model of {self.run} has none", nearest(self.part, parts))
        rows = [corpus.vocabulary.index[word] for word in self.words]
        self.matrix = parts[self.part].detach().float()[rows]


class JoinedOptions(MethodOptions):
    runs: Sequence[Source] = ()
    """runs or files of word vectors, such as [outputs/ptb/ppmi,outputs/ptb/skipgram]."""
    weights: Sequence[NonNegative] = ()
    """weight of each of them, such as [1,1]."""


@methods.register("joined")
class Joined(Method):
    """Concatenated vectors, each of unit length and then times its weight. So a cosine is a weighted mean of cosines.

    The mean weighs by the weights' squares.
    """

    @configured(JoinedOptions)
    def __init__(self, options: JoinedOptions):
        if not options.runs or len(options.runs) != len(options.weights):
            needed = "as many method.runs as method.weights, such as runs=[A,B] weights=[1,1]"
            raise UserError(f"method=joined needs {needed}")
        super().__init__(options.min_count)
        self.runs, self.weights = options.runs, options.weights

    def start(self, corpus: Corpus, seed: int) -> None:
        super().start(corpus, seed)
        parts = [read_vectors(Path(run)) for run in self.runs]
        for run, part in zip(self.runs, parts, strict=True):
            has = sum(word in part.index for word in self.words)
            log.info("%s has vectors of %s of %s words", run, f"{has:,}", f"{len(self.words):,}")
        self.words = [word for word in self.words if all(word in part.index for part in parts)]
        if not self.words:
            raise UserError("method.runs: no word of the text has a vector in each")
        rows = [part.unit[[part.index[word] for word in self.words]] for part in parts]
        self.matrix = torch.cat([weight * row for weight, row in zip(self.weights, rows, strict=True)], 1)
