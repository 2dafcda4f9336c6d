"""Vectors of several methods as one."""

from pathlib import Path

import torch

from lmzoo.core.errors import UserError
from lmzoo.core.options import NonNegative, Size, Source
from lmzoo.corpus import Corpus
from lmzoo.words.vectors.formats import read_vectors
from lmzoo.words.vectors.method import Ready, methods


@methods.register("joined")
class Joined(Ready):
    """Vectors side by side, each of unit length and then times its weight. So a cosine is a weighted mean of cosines.

    The mean weighs by the weights' squares.

    Args:
        runs: runs or files of word vectors, such as [outputs/ptb/ppmi,outputs/ptb/skipgram].
        weights: of each of them, such as [1,1].
    """

    def __init__(self, *, runs: list[Source], weights: list[NonNegative], min_count: Size):
        if not runs or len(runs) != len(weights):
            raise UserError(
                "method=joined needs as many method.runs as method.weights, such as runs=[A,B] weights=[1,1]"
            )
        super().__init__(min_count)
        self.runs, self.weights = runs, weights

    def start(self, corpus: Corpus, seed: int) -> None:
        super().start(corpus, seed)
        parts = [read_vectors(Path(run)) for run in self.runs]
        self.words = [word for word in self.words if all(word in part.index for part in parts)]
        if not self.words:
            raise UserError("method.runs: no word of the text has a vector in each")
        rows = [part.unit[[part.index[word] for word in self.words]] for part in parts]
        self.matrix = torch.cat([weight * row for weight, row in zip(self.weights, rows, strict=True)], 1)
