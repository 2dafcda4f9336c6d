"""The protocol of models that label words."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from lmzoo.core.registry import Registry
from lmzoo.labels.formats import Sentence

labellers = Registry("labeller")


class Labeller(ABC):
    """Learns from labelled sentences, and labels others."""

    @abstractmethod
    def fit(self, sentences: Sequence[Sentence], seed: int) -> None:
        """Learn; called once."""

    @abstractmethod
    def label(self, sentence: Sentence) -> list[str]:
        """A label for each word of a sentence, whose own labels are not read."""
