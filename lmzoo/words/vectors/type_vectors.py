"""The vectors that a trained language model has of words, as word vectors."""

from lmzoo.core.errors import UserError, nearest
from lmzoo.core.options import Source
from lmzoo.corpus import Corpus
from lmzoo.words.vectors.method import Ready, methods


@methods.register("type")
class TypeVectors(Ready):
    """The vectors of a run of ``lmzoo train``: what a language model has learnt of each word, whatever its context.

    Args:
        run: the folder of a run of ``lmzoo train``, of the same words as the corpus.
        part: which of the model's matrices: input, output or states, see `LanguageModel.word_vectors`.
    """

    def __init__(self, *, run: Source | None, part: str, min_count: int):
        if run is None:
            raise UserError("method=type needs method.run=FOLDER, a run of lmzoo train")
        super().__init__(min_count)
        self.run, self.part = run, part

    def start(self, corpus: Corpus, seed: int) -> None:
        super().start(corpus, seed)
        parts = self.open_vectors("method.run", self.run)
        if self.part not in parts:
            raise UserError(f"method.part={self.part}: the model of {self.run} has none", nearest(self.part, parts))
        rows = [corpus.vocabulary.index[word] for word in self.words]
        self.matrix = parts[self.part].detach().float()[rows]
