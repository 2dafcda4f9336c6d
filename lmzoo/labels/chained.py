"""What labellers have in common whose labels are a linear chain."""

from abc import abstractmethod
from collections.abc import Sequence

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
            for number, path in zip(batch, best(self.scores([sentences[i] for i in batch])), strict=True):
                found[number] = [self.labels[k] for k in path]
        return [found[i] for i in range(len(sentences))]

    def k_best(self, sentence: Sentence, k: int) -> list[tuple[float, list[str]]]:
        """The k best labellings of a sentence with log p(y | x); the higher, the earlier."""
        scores = self.scores([sentence])
        whole = float(log_partition(scores))
        found = k_best(scores.emission[0], scores.moves, scores.start, k)
        return [(value - whole, [self.labels[i] for i in path]) for value, path in found]
