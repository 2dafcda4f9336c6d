"""What every method for word vectors does."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.options import Options, Size
from lmzoo.core.registry import Registry
from lmzoo.corpus import EOS_ID, Corpus
from lmzoo.corpus.lines import line_numbers


@dataclass(frozen=True)
class WordText:
    """The words of a training text that are frequent enough, by numbers of their own.

    `<eos>` and rarer words are left out before anything is counted, so that the words on their sides are neighbours, as
    in word2vec.

    Attributes:
        words: V, the most frequent first.
        counts: (V,) int64.
        tokens: (N,) int64 below V.
        lines: (N,) int64, ascending: no word is a neighbour of another line's. The number of each token's line, or 0
            throughout where the corpus is read as a stream.
        places: (N,) int64 places of the tokens in ``corpus.splits["train"]``.
    """

    words: list[str]
    counts: Tensor
    tokens: Tensor
    lines: Tensor
    places: Tensor

    @classmethod
    def of(cls, corpus: Corpus, min_count: int) -> "WordText":
        """The words that ``corpus.splits["train"]`` has ``min_count`` times or more; a UserError for fewer than two."""
        read = corpus.splits["train"].cpu()
        counts = read.bincount(minlength=len(corpus.vocabulary))
        frequent = counts >= min_count
        frequent[EOS_ID] = False
        order = counts.argsort(descending=True, stable=True)
        order = order[frequent[order]]
        if len(order) < 2:
            raise UserError(
                f"method.min_count={min_count}: fewer than two words of the text have this count", "lower it"
            )
        number = torch.full_like(counts, -1)
        number[order] = torch.arange(len(order))
        places = (number[read] >= 0).nonzero()[:, 0]
        line = line_numbers(read)[places] if corpus.context == "sentence" else torch.zeros_like(places)
        words = [corpus.vocabulary.words[word] for word in order.tolist()]
        return cls(words, counts[order], number[read[places]], line, places)

    def require_neighbours(self) -> None:
        """Raise a UserError if no line has two of the words, from which nothing can be learned about contexts."""
        if not (self.lines.diff() == 0).any():
            problem = "method.min_count: no line of train has two words with this count"
            raise UserError(problem, "lower it, or set corpus.context=stream")


methods = Registry("method")


class MethodOptions(Options):
    min_count: Size = 5
    """words with a lower count have no vector."""


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
        saved: the names of the tensors that steps change.
        any_device: whether steps compute on any device, and not on a CPU alone.
        device: set before `start`.
        open_vectors: from the option that names the run of a language model and its folder to the model's vectors of
            words (V, d), by their names; set before `start`.
    """

    steps: int = 1
    epoch: int = 1
    saved: ClassVar[Sequence[str]] = ()
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
        """What steps change."""
        return {name: getattr(self, name) for name in self.saved}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Copy a `state` into these tensors; called after `start`."""
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def vectors(self) -> Tensor:
        """(V, d) float32, after the last step."""
        return self.matrix
