"""Lines of text, scored word by word."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS, EOS_ID, Context, Vocabulary
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.perplexity import fault, text_logprobs


class Line(NamedTuple):
    """A scored line.

    Attributes:
        words: those of the line and `<eos>`, n in all.
        logprobs: (n,) log p of each given those before it, in nats; float64.
        known: (n,) bool, whether the model knows the word. It reads others as `<unk>`.
        logprob: Σ log p in nats.
        logprob_of_known: Σ log p over the words that the model knows, in nats.
        unknown: how many words the model does not know.
    """

    words: list[str]
    logprobs: Tensor
    known: Tensor
    logprob: float
    logprob_of_known: float
    unknown: int


def scored(
    model: LanguageModel,
    vocabulary: Vocabulary,
    lines: Sequence[str],
    context: Context,
    where: str = "text",
    conditions: Tensor | None = None,
) -> Iterator[Line]:
    """Score each word of the lines of a text; every line is made when it is asked for, since long texts have many.

    Args:
        context: as in `lmzoo.corpus.Context`.
        where: the name of the text in an error.
        conditions: see `text_logprobs`.

    Raises: UserError as `Vocabulary.encode` does, and where log-probabilities are none, as `fault` tells; both before
        the first line.
    """
    if not lines:
        return iter(())
    numbers = vocabulary.look_up(lines, where)
    tokens = vocabulary.read(numbers)
    logprobs = text_logprobs(model, tokens, context, conditions).cpu().double()
    if problem := fault(logprobs):
        raise UserError(f"{where}: {problem}", "train the model again")
    words = ([*vocabulary.form.words(line), EOS] for line in lines)
    return _cut(words, logprobs, numbers >= 0, tokens == EOS_ID)


def _cut(words: Iterator[list[str]], logprobs: Tensor, known: Tensor, ends: Tensor) -> Iterator[Line]:
    """(N,) log p of the words of a text, whether each is known and whether it ends a line -> the lines."""
    of_line = ends.cumsum(0) - ends.long()  # (N,) the number of each word's line
    sums = logprobs.new_zeros(3, int(ends.sum()))
    for total, values in zip(sums, (logprobs, logprobs.where(known, 0.0), (~known).double()), strict=True):
        total.index_add_(0, of_line, values)
    begin = 0
    for row, end, total, of_known, unknown in zip(
        words, (ends.nonzero()[:, 0] + 1).tolist(), *map(Tensor.tolist, sums), strict=True
    ):
        yield Line(row, logprobs[begin:end], known[begin:end], total, of_known, int(unknown))
        begin = end
