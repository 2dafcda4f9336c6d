"""The most frequent label of each word."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from lmzoo.labels.formats import Sentence
from lmzoo.labels.model import Labeller, labellers


@labellers.register("majority")
class Majority(Labeller):
    """The most frequent label of a word in train; of a new word, the most frequent of all."""

    saved = ("labels", "default")

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for sentence in sentences:
            for word, label in zip(sentence.words, sentence.labels, strict=True):
                counts[word][label] += 1
        self.labels = {word: counted.most_common(1)[0][0] for word, counted in counts.items()}
        self.default = sum(counts.values(), Counter()).most_common(1)[0][0]

    def label(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        return [[self.labels.get(word, self.default) for word in sentence.words] for sentence in sentences]
