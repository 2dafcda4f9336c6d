"""What labellers have in common whose labels are a linear chain."""

import math
from abc import abstractmethod
from collections.abc import Sequence

from lmzoo.core.errors import UserError
from lmzoo.labels.chain import Scores, batches, best, k_best, log_partition
from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import Labeller

BATCH = 4096
"""Words and padding whose labels are sought at once."""


class Chained(Labeller):
    """Labels each sentence with the labels of the highest score.

    Attributes:
        labels: K labels.
        probabilistic: whether p(y | x) = exp(s(y)) / Z.
    """

    labels: list[str]
    probabilistic: bool = True

    @abstractmethod
    def scores(self, sentences: Sequence[Sentence]) -> Scores:
        """Those of some sentences, without a gradient."""

    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        found: dict[int, list[str]] = {}
        for batch in batches([len(sentence.words) for sentence in sentences], BATCH):
            for number, path in zip(batch, best(self._checked([sentences[i] for i in batch])), strict=True):
                found[number] = [self.labels[k] for k in path]
        return [found[i] for i in range(len(sentences))]

    def _checked(self, sentences: Sequence[Sentence]) -> Scores:
        """`scores`; a UserError where one is no number or infinite, since the best labels would be any."""
        scores = self.scores(sentences)
        if not all(bool((part < math.inf).all()) for part in (scores.emission[scores.inside()], *scores[1:3])):
            raise UserError("the model's scores of labels are no numbers", "train it again")
        return scores

    def k_best(self, sentence: Sentence, k: int) -> list[tuple[float, list[str]]]:
        """The k best labellings of a sentence with log p(y | x); the higher, the earlier."""
        scores = self._checked([sentence])
        whole = float(log_partition(scores))
        if not math.isfinite(whole):
            raise UserError(f"log Z of a sentence is {whole}, so its labels have no probabilities", "train it again")
        found = k_best(scores.emission[0], scores.moves, scores.start, k)
        return [(value - whole, [self.labels[i] for i in path]) for value, path in found]
