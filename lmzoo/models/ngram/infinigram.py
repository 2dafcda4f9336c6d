"""The ∞-gram model: the next word by the counts after the longest context that the text has."""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor, nn

from lmzoo.corpus import EOS_ID, Corpus
from lmzoo.protocol.model import LanguageModel, State, models
from lmzoo.protocol.state_dict import sized_by_estimate

Found = tuple[int, int, int]
"""A context that a text has: its occurrences are those of the ranks from the first number up to the second, without it;
the third is how many words the context has."""


def ranked(text: Tensor) -> Tensor:
    """(N,) words of a text -> (N,) the rank of all that stands before each, by its last word, then the one before, ….

    The text is a circle. Ranks are of 1, 2, 4, … words, each from the one before (Karp, Miller & Rosenberg, *Rapid
    identification of repeated patterns in strings, trees and arrays*, 1972), until more words part no two places.
    """
    rank, length, classes = text.roll(1), 1, 0
    while length < 2 * len(text):
        _, longer = torch.unique(rank * (rank.max() + 1) + rank.roll(length), return_inverse=True)
        if (found := int(longer.max()) + 1) == classes:
            break
        rank, length, classes = longer, 2 * length, found
    return rank.argsort().argsort()  # where the whole text is one part again and again, equal ones in any order


class Contexts:
    """All contexts of a text of N words, by rank: an FM-index (Ferragina & Manzini, 2000) of the text read backwards.

    Args:
        keys: (N,) ascending. That of rank r is w N + s: the context of rank r is that of rank s, and w after it.
    """

    def __init__(self, keys: Tensor):
        self._tensor, self.size = keys, len(keys)
        self.keys: Sequence[int] = keys.numpy().data

    @cached_property
    def following(self) -> Tensor:
        """(N,) the word after each context."""
        words = torch.empty_like(self._tensor)
        return words.index_copy_(0, self._tensor % self.size, self._tensor // self.size)

    def extended(self, context: Found, word: int) -> Found:
        """A context and a word after it; it has no ranks where the text does not have it."""
        first, end, length = context
        begin = word * self.size
        return bisect_left(self.keys, begin + first), bisect_left(self.keys, begin + end), length + 1

    def read(self, context: Found, word: int) -> Found:
        """The longest context of the text after a word has been read.

        Where the word does not follow, the contexts that are likest to this one, of all that it follows, are its
        neighbours by rank.
        """
        longer = self.extended(context, word)
        if longer[0] < longer[1]:
            return longer
        keys = (self.keys[place] for place in (longer[0] - 1, longer[0]) if 0 <= place < self.size)
        others = [key % self.size for key in keys if key // self.size == word]
        if not others:
            return 0, self.size, 0  # the text does not have the word
        shared = max(self._shared(context, other) for other in others)
        found = 0, self.size, 0
        for word_of in [*reversed(shared), word]:
            found = self.extended(found, word_of)
        return found

    def _shared(self, context: Found, other: int) -> list[int]:
        """The words, latest first, which a context and that of another rank both end with."""
        rank, words = context[0], []
        for _ in range(context[2]):
            (word, rank), (another, other) = divmod(self.keys[rank], self.size), divmod(self.keys[other], self.size)
            if word != another:
                break
            words.append(word)
        return words


@models.register("infinigram")
class InfiniGram(LanguageModel):
    """p(w | x_<t) = count(c w) / count(c), where c is the longest of the contexts that end at t and occur in train.

    Liu, Min, Zettlemoyer, Choi & Hajishirzi, *Infini-gram: scaling unbounded n-gram language models to a trillion
    tokens*, COLM 2024. Nothing is smoothed: a word that never follows c is impossible, and perplexity is infinite where
    a text has one. So the model is a part of a ``mixture``. Train is a circle: its first line follows its last.

    The state is the range of ranks of c, and how many words it has. A line begins after `<eos>`; in a stream c may
    reach over the ends of lines.
    """

    takes_steps = False
    estimated_tensors = ("keys",)

    def __init__(self, vocabulary_size: int):
        super().__init__()
        self.vocabulary_size = vocabulary_size
        self.keys = nn.Buffer(torch.zeros(1, dtype=torch.int64))
        """(N,) see `Contexts`; before `estimate` those of a text of one `<eos>`."""
        sized_by_estimate(self, "keys", constant=True)

    def tables(self) -> Contexts:
        return Contexts(self.keys.cpu())

    def estimate(self, corpus: Corpus) -> None:
        text = corpus.splits["train"].long()
        self.keys = (text * len(text) + ranked(text)).sort().values.to(self.device)

    def initial_state(self, batch_size: int) -> State:
        contexts = self.current_tables()
        found = contexts.read((0, contexts.size, 0), EOS_ID)
        return torch.tensor(found, device=self.device).expand(batch_size, -1).unbind(1)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        contexts, counts = self.current_tables(), []
        firsts, ends, lengths = (part.tolist() for part in state)
        after = [*zip(firsts, ends, lengths, strict=True)]
        for row, words in enumerate(tokens.tolist()):
            context = after[row]
            for word in words:
                longer = contexts.extended(context, word)
                counts.append((longer[1] - longer[0], context[1] - context[0]))
                context = contexts.read(context, word)
            after[row] = context
        hits, occurrences = torch.tensor(counts, dtype=torch.float64, device=self.device).view(-1, 2).unbind(1)
        logprobs = (hits.log() - occurrences.log()).float().view(tokens.shape)
        return logprobs, torch.tensor(after, device=self.device).view(-1, 3).unbind(1)

    def predict(self, state: State) -> Tensor:
        following, (first, end, _) = self.current_tables().following, state
        counts = torch.zeros(len(first), self.vocabulary_size, dtype=torch.float64)
        for row, begin, stop in zip(counts, first.tolist(), end.tolist(), strict=True):
            row += torch.bincount(following[begin:stop], minlength=self.vocabulary_size)
        return (counts.log() - counts.sum(1, keepdim=True).log()).float().to(self.device)
