"""Features of whole sentences: their length, n-grams of words and of classes, and pairs of words that are apart."""

from collections.abc import Iterator
from typing import Annotated

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.options import Count, Idle, Options, configured
from lmzoo.corpus import EOS_ID
from lmzoo.corpus.lines import line_numbers
from lmzoo.numerics.hashing import find
from lmzoo.numerics.sparse import SparseRows

LENGTHS = 100
"""Longer sentences share a feature."""

KIND = 1 << 57
"""A key is the number of its kind times this, and below it the words, the classes or the length as one number."""

KINDS = (1 << 63) // KIND
"""So many kinds have keys in int64."""


Occurrences = tuple[Tensor, Tensor]
"""(M,) int64 keys of features, and the (M,) numbers of the sentences that have them; twice where one is there twice."""


class FeatureOptions(Options):
    """The kinds of features that are chosen."""

    length: bool = True
    """whether the number of words is a feature."""
    words: Count = 2
    """maximum order of word n-grams, from unigrams on; `<eos>` stands before and after a sentence. 0: none."""
    window: Count = 5
    """maximum distance of two words, not adjacent, whose co-occurrence is a feature. 0: none."""
    class_words: Annotated[Count, Idle(("model.clusters", []))] = 4
    """maximum order of cluster n-grams, from bigrams on. 0: none."""


class SentenceFeatures:
    """The features of sentences.

    Args:
        classes: the (V,) cluster of each word in every clustering.
        options: the kinds of features.
    """

    @configured(FeatureOptions)
    def __init__(self, vocabulary_size: int, classes: Tensor, options: FeatureOptions):
        self.size, self.classes, self.options = vocabulary_size, classes, options
        for option, base in (("words", vocabulary_size), ("class_words", max(map(_size, classes), default=1))):
            if base ** (longest := getattr(options, option)) >= KIND:
                raise UserError(f"model.{option}={longest}: {base:,}^{longest} n-grams have no numbers", "lower it")
        kinds = options.length + options.words + 1 + len(classes) * max(options.class_words - 1, 0)
        if kinds > KINDS:
            made = f"{len(classes)} clusterings make {kinds} kinds of features"
            raise UserError(f"model.clusters: {made}, more than {KINDS}", "name fewer")

    def of(self, tokens: Tensor) -> Iterator[Occurrences]:
        """The features of the sentences of a (N,) text, each closed by `<eos>`, kind by kind."""
        for kind, (keys, sentences) in enumerate(self._kinds(tokens)):
            yield keys + kind * KIND, sentences

    def _kinds(self, tokens: Tensor) -> Iterator[Occurrences]:
        text = torch.cat([tokens.new_tensor([EOS_ID]), tokens])  # (1 + N,)
        ends = (text == EOS_ID).nonzero()[:, 0]
        sentence = line_numbers(tokens)
        longest = int(ends.diff().max())
        begin = ends[torch.cat([sentence.new_zeros(1), sentence])]  # (1 + N,) the <eos> before each token's sentence
        sentence = torch.cat([sentence.new_full((1,), -1), sentence])
        if self.options.length:
            yield (ends.diff() - 1).clamp(max=LENGTHS), torch.arange(len(ends) - 1)

        def reaching(back: int) -> Tensor:
            """The places of the tokens that are at least so far behind the beginning of their sentence."""
            place = torch.arange(back, len(text))
            return place[(place - back >= begin[back:]) & (place > 0)]

        def ngrams(text: Tensor, base: int, n: int) -> Occurrences:
            last = reaching(n - 1)
            keys = torch.zeros_like(last)
            for back in reversed(range(n)):
                keys = keys * base + text[last - back]
            return keys, sentence[last]

        for n in range(1, self.options.words + 1):
            yield ngrams(text, self.size, n)
        lasts = [(reaching(back), back) for back in range(2, min(self.options.window, longest) + 1)]
        keys = [text[last - back] * self.size + text[last] for last, back in lasts]
        empty = text.new_empty(0)
        yield torch.cat([empty, *keys]), torch.cat([empty, *(sentence[last] for last, _ in lasts)])
        for of_word in self.classes:
            for n in range(2, self.options.class_words + 1):
                yield ngrams(of_word[text], _size(of_word), n)


def _size(of_word: Tensor) -> int:
    return int(of_word.max()) + 1


def frequent(features: SentenceFeatures, texts: list[Tensor], min_count: int) -> Tensor:
    """(F,) the keys, ascending, of the features that occur at least so often in one of the texts."""
    frequent_keys = []
    for occurrences in zip(*(features.of(text) for text in texts), strict=True):
        counted = [keys.unique(return_counts=True) for keys, _ in occurrences]
        frequent_keys.append(torch.cat([keys[counts >= min_count] for keys, counts in counted]).unique())
    return torch.cat(frequent_keys)


def matrix(features: SentenceFeatures, keys: Tensor, tokens: Tensor) -> SparseRows:
    """(S, F) how often each sentence of a text has each feature; F are the (F,) ascending keys."""
    rows, columns = [tokens.new_empty(0)], [tokens.new_empty(0)]
    for occurring, sentences in features.of(tokens):
        place = find(keys, occurring)
        rows.append(sentences[place >= 0])
        columns.append(place[place >= 0])
    width = max(len(keys), 1)
    cells, counts = (torch.cat(rows) * width + torch.cat(columns)).unique(return_counts=True)
    begins = torch.searchsorted(cells, torch.arange(int((tokens == EOS_ID).sum())) * width)
    return SparseRows(cells % width, begins, len(keys), counts.float())
