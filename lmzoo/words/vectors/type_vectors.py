"""The vectors that a trained language model has of words, as word vectors."""

from collections.abc import Mapping

from torch import Tensor

from lmzoo.core.errors import UserError, nearest
from lmzoo.core.options import Source
from lmzoo.corpus import Corpus
from lmzoo.words.vectors.method import Ready, methods
from lmzoo.words.vectors.text import WordText


@methods.register("type")
class TypeVectors(Ready):
    """The vectors of a run of ``lmzoo train``: what a language model has learnt of each word, whatever its context.

    Args:
        run: the folder of a run of ``lmzoo train``, of the same words as the corpus.
        part: which of the model's matrices: input, output or states, see `LanguageModel.word_vectors`.
        min_count: rarer words have no vector.
    """

    def __init__(self, *, run: Source | None, part: str, min_count: int):
        if run is None:
            raise UserError("method=type needs method.run=FOLDER, a run of lmzoo train")
        self.run, self.part, self.min_count = run, part, min_count

    @property
    def starts_from(self) -> tuple[str, str]:
        return "method.run", self.run

    def inherit(self, parts: Mapping[str, Tensor]) -> None:
        if self.part not in parts:
            raise UserError(f"method.part={self.part}: the model of {self.run} has none", nearest(self.part, parts))
        self.all = parts[self.part].detach().float()

    def start(self, corpus: Corpus, seed: int) -> None:
        text = WordText.of(corpus, self.min_count)
        rows = [corpus.vocabulary.index[word] for word in text.words]
        self.words, self.read = text.words, len(corpus.train)
        self.matrix = self.all[rows]
