"""What every method for word vectors does."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from lmzoo.core.options import Options, Size
from lmzoo.core.registry import Registry
from lmzoo.corpus import Corpus
from lmzoo.words.vectors.text import WordText

methods = Registry("method")


class MethodOptions(Options):
    min_count: Size = 5
    """rarer words have no vector."""


class Method:
    """A way to learn a vector for each word of a text, in steps.

    What a step does depends on its number, the seed and `state` alone. So a run goes on exactly where it stopped.

    Args:
        min_count: rarer words have no vector.

    Attributes:
        steps: their number, known after `start`.
        epoch: how many steps read the text once.
        text: that of train, without rarer words, known after `start`.
        words: V words, known after `start`.
        matrix: (V, d) float32 vectors, unless `vectors` computes them. Where `start` finds them, the one step does
            nothing.
        any_device: whether steps compute on any device, and not on a CPU alone.
        device: set before `start`.
        open_vectors: from the option that names the run of a language model and its folder to the model's vectors of
            words (V, d), by their names; set before `start`.
    """

    steps: int = 1
    epoch: int = 1
    any_device: bool = False
    device: torch.device = torch.device("cpu")
    open_vectors: Callable[[str, str], Mapping[str, Tensor]]
    text: WordText
    words: list[str]
    matrix: Tensor

    def __init__(self, min_count: int):
        self.min_count = min_count

    def start(self, corpus: Corpus, seed: int) -> None:
        """Read the training text, and be ready for the first step; a UserError where options do not suit the text."""
        self.text = WordText.of(corpus, self.min_count)
        self.words = self.text.words

    def step(self, number: int) -> dict[str, float]:
        """Do step ``number``, 0 … steps - 1; returns what TensorBoard shows of it."""
        return {}

    def state(self) -> Mapping[str, Tensor]:
        """What steps change; a resumed run copies into these tensors what they were."""
        return {}

    def vectors(self) -> Tensor:
        """(V, d) float32, after the last step."""
        return self.matrix
