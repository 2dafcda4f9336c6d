"""Lines of text, scored word by word."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS, Context, Vocabulary
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.perplexity import by_line, fault, text_logprobs


@dataclass(frozen=True)
class Line:
    """A scored line.

    Attributes:
        words: those of the line and `<eos>`, n in all.
        logprobs: (n,) log p of each given those before it, in nats; float64.
        known: (n,) bool, whether the model knows the word. It reads others as `<unk>`.
    """

    words: list[str]
    logprobs: Tensor
    known: Tensor

    @property
    def logprob(self) -> float:
        """Σ log p in nats."""
        return float(self.logprobs.sum())

    @property
    def logprob_of_known(self) -> float:
        """Σ log p over the words that the model knows, in nats."""
        return float(self.logprobs[self.known].sum())

    @property
    def unknown(self) -> int:
        """How many words the model does not know."""
        return int((~self.known).sum())


def scored(
    model: LanguageModel, vocabulary: Vocabulary, lines: Sequence[str], context: Context, where: str = "text"
) -> list[Line]:
    """Score each word of the lines of a text.

    Args:
        context: as in `lmzoo.corpus.Context`.
        where: the name of the text in an error.

    Raises: UserError as `Vocabulary.encode` does, and where log-probabilities are none, as `fault` tells.
    """
    if not lines:
        return []
    tokens = vocabulary.encode(lines, where)
    logprobs = text_logprobs(model, tokens, context).cpu().double()
    if problem := fault(logprobs):
        raise UserError(f"{where}: {problem}", "train the model again")
    words = [[*vocabulary.form.words(line), EOS] for line in lines]
    known = [torch.tensor([word in vocabulary.index for word in row]) for row in words]
    return [Line(*parts) for parts in zip(words, by_line(logprobs, tokens), known, strict=True)]
