"""A text as the methods for word vectors read it: the words that have vectors, and where its lines end."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
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
                f"method.min_count={min_count}: fewer than two words of the text occur so often", "lower it"
            )
        number = torch.full_like(counts, -1)
        number[order] = torch.arange(len(order))
        places = (number[read] >= 0).nonzero()[:, 0]
        line = line_numbers(read)[places] if corpus.context == "sentence" else torch.zeros_like(places)
        words = [corpus.vocabulary.words[word] for word in order.tolist()]
        return cls(words, counts[order], number[read[places]], line, places)
