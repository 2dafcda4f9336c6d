"""Training of word vectors."""

from collections.abc import Iterator
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.corpus.entries import load_corpus
from lmzoo.runs.command_options import VectorsOptions
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import load_source
from lmzoo.training.steps import SteppedLearner
from lmzoo.words.vectors.formats import VECTORS, encoded
from lmzoo.words.vectors.method import Method, methods
from lmzoo.words.vectors.word_vectors import WordVectors


class Learning(SteppedLearner):
    """A method for word vectors."""

    advice = "lower method.lr"
    unsealed = (VECTORS,)

    options: VectorsOptions
    model: Method

    def __init__(self, options: VectorsOptions, run: Run):
        super().__init__(options, run, methods, options.method)
        self.corpus = load_corpus(options.corpus)

    def start(self) -> None:
        self.model.open_vectors = lambda option, folder: load_source(folder, self.corpus, option).model.word_vectors()
        self.model.start(self.corpus, self.options.seed)
        self.text_tokens = len(self.model.text.tokens)

    def describe(self) -> Iterator[str]:
        yield from super().describe()
        yield f"{len(self.model.words):,} words of {len(self.corpus.splits['train']):,} tokens"

    def measure(self) -> dict[str, Any]:
        matrix = self.model.vectors().cpu()
        if not bool(matrix.float().isfinite().all()):  # no program reads others
            raise UserError("the vectors are not finite", "choose other options of the method and another run_dir")
        self.run.write(VECTORS, encoded(WordVectors(self.model.words, matrix), "word2vec"))
        return {
            "corpus": self.corpus.name,
            "context": self.corpus.context,
            "words": len(self.model.words),
            "dimensions": matrix.shape[1],
            "loss": self.progress.metrics.get("train/loss"),
            "seconds": round(self.progress.seconds, 3),
            "tokens_per_second": round(self.progress.tokens / max(self.progress.seconds, 1e-9), 1),
            "device": str(self.device),
        }
