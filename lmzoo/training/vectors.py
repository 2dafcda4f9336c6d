"""Word vectors that are learnt in a run."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lmzoo.core.errors import UserError
from lmzoo.corpus import load_corpus
from lmzoo.runs.checkpoint import same_form
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import trained
from lmzoo.training.steps import SteppedLearner, SteppedOptions
from lmzoo.words.vectors.formats import VECTORS, encoded
from lmzoo.words.vectors.method import Method, methods
from lmzoo.words.vectors.word_vectors import WordVectors


@dataclass(frozen=True, kw_only=True)
class Options(SteppedOptions):
    """What ``configs/vectors.yaml`` sets."""

    corpus: dict
    method: dict


class Learning(SteppedLearner):
    """A method for word vectors."""

    needed = ("state",)
    advice = "lower method.lr"
    unsealed = (VECTORS,)

    options: Options

    def __init__(self, options: Options, run: Run):
        super().__init__(run, options)
        self.method: Method = methods.build(options.method)
        self.corpus, self.sources = load_corpus(options.corpus), methods.sources(options.method)

    @property
    def cpu_alone(self) -> str | None:
        return None if self.method.any_device else f"method={self.options.method['name']}"

    @property
    def steps(self) -> int:
        return self.method.steps

    def tokens_after(self, number: int) -> int:
        return self.method.tokens(number)

    def take_step(self, number: int) -> dict[str, float]:
        return self.method.step(number)

    def start(self) -> None:
        self.method.device = self.device
        if self.method.starts_from is not None:
            option, folder = self.method.starts_from
            self.method.inherit(trained(folder, self.corpus, option).model.word_vectors())
        self.method.start(self.corpus, self.options.seed)

    def state(self) -> dict[str, Any]:
        return {"state": dict(self.method.state())}

    def go_on(self, saved: dict[str, Any]) -> None:
        with self.run.reading("last.pt"):
            if not same_form(saved["state"], self.method.state()):
                raise UserError("holds nothing of this method")
            for name, tensor in self.method.state().items():
                tensor.copy_(saved["state"][name])

    def described(self) -> Iterator[str]:
        yield f"{self.options.method['name']} on {self.corpus.name}, {self.device}: {self.run.path}"
        yield f"{len(self.method.words):,} words of {len(self.corpus.train):,} tokens"

    def measure(self) -> dict[str, Any]:
        matrix = self.method.vectors().cpu()
        if not bool(matrix.float().isfinite().all()):  # no program reads such vectors
            raise UserError("the vectors are not finite", "choose other options of the method and another run_dir")
        self.run.write(VECTORS, encoded(WordVectors(self.method.words, matrix), "word2vec"))
        return {
            "corpus": self.corpus.name,
            "context": self.corpus.context,
            "words": len(self.method.words),
            "dimensions": matrix.shape[1],
            "loss": self.position.metrics.get("train/loss"),
            "seconds": round(self.seconds, 3),
            "tokens_per_second": round(self.tokens / max(self.seconds, 1e-9), 1),
            "device": str(self.device),
            "warnings": self.corpus.warnings,
        }
