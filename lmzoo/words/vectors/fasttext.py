"""fastText: skip-gram whose words are means of vectors of n-grams; so words that a text does not have get vectors, too.

Bojanowski, Grave, Joulin & Mikolov, *Enriching word vectors with subword information*, TACL 2017.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.core.errors import UserError
from lmzoo.core.options import NonNegative, Size, Source, configured
from lmzoo.corpus import Corpus
from lmzoo.corpus.user_files import read_vocabulary, words_file
from lmzoo.corpus.vocabulary import UNK
from lmzoo.numerics.sparse import ranges
from lmzoo.words.vectors.method import methods
from lmzoo.words.vectors.word2vec import SkipGram, Word2VecOptions

MOST = 2
"""The occurrences in a batch whose steps a row takes in full. With 8 training on the embedded corpus diverges."""


def buckets_of(word: str, shortest: int, longest: int, buckets: int) -> list[int]:
    """The bucket of each n-gram of characters of ``<word>``, hashed by FNV-1a over bytes with a sign, as fastText does.

    The ends ``<`` and ``>`` alone are no n-grams.
    """
    signs, found = [sign.encode("utf-8", "surrogatepass") for sign in f"<{word}>"], []
    for begin in range(len(signs)):
        number = 2166136261
        for end, sign in enumerate(signs[begin : begin + longest], begin + 1):
            for byte in sign:
                number = (number ^ (byte if byte < 128 else byte + 0xFFFFFF00)) * 16777619 & 0xFFFFFFFF
            alone = end - begin == 1 and (begin == 0 or end == len(signs))
            if end - begin >= shortest and not alone:
                found.append(number % buckets)
    return found


class FastTextOptions(Word2VecOptions):
    lr: NonNegative = 0.05
    shortest: Size = 3
    """minimum n-gram length in characters, with ``<`` before and ``>`` after a word."""
    longest: Size = 6
    """maximum n-gram length in characters."""
    buckets: Size = 200_000
    """number of hash buckets for n-grams."""
    also: Source | None = None
    """a file with a word a line, or a run: its words have vectors, too, of n-grams alone if the text lacks them; except
    `<unk>`, whose characters are not a word's."""


@methods.register("fasttext")
class FastText(SkipGram):
    """Skip-gram where v_w is the mean of a vector of the word and those of its n-grams of characters.

    Bojanowski, Grave, Joulin & Mikolov 2017, as their program has it. n-grams with one hash share a vector, and each
    takes the whole step of its word. As words share n-grams, so many steps at once would diverge as a row of `SkipGram`
    takes: here a row takes `MOST` in full.
    """

    @configured(FastTextOptions)
    def __init__(self, options: FastTextOptions):
        super().__init__(**options.inherited(Word2VecOptions))
        self.shortest, self.longest = options.shortest, options.longest
        self.buckets, self.also = options.buckets, options.also
        if self.longest < self.shortest:
            raise UserError(f"method.longest={self.longest}: is below method.shortest={self.shortest}", "raise it")

    def start(self, corpus: Corpus, seed: int) -> None:
        super().start(corpus, seed)
        V, known, d = len(self.words), {*self.words, UNK}, self.options.dim
        if self.also is not None:
            listed = read_vocabulary(str(words_file(self.also)), option="method.also").words[1:]
            self.words = [*self.words, *(word for word in listed if word not in known)]
        rows = [[i] * (i < V) + [V + n for n in buckets_of(word, self.shortest, self.longest, self.buckets)]
                for i, word in enumerate(self.words)]  # fmt: skip
        if bare := next((word for word, own in zip(self.words, rows, strict=True) if not own), None):
            advice = "lower it, or leave the word out"
            raise UserError(f"method.shortest={self.shortest}: '{bare}' of method.also has no n-gram", advice)
        self.rows = torch.tensor([row for own in rows for row in own], device=self.device)
        self.count = torch.tensor([len(own) for own in rows], device=self.device)
        self.first = self.count.cumsum(0) - self.count
        random = torch.Generator().manual_seed(seed)
        self.W = ((torch.rand(V + self.buckets, d, generator=random) - 0.5) * (2 / d)).to(self.device)

    def vectors(self) -> Tensor:
        return self.of_words(torch.arange(len(self.words), device=self.device))

    def of_words(self, words: Tensor) -> Tensor:
        numbers, inverse = words.unique(return_inverse=True)
        _, place = ranges(self.first[numbers], self.count[numbers])
        offsets = self.count[numbers].cumsum(0) - self.count[numbers]
        return F.embedding_bag(self.rows[place], self.W, offsets, mode="mean")[inverse]

    def learn(self, words: Tensor, gradient: Tensor, rate: float) -> None:
        which, place = ranges(self.first[words.flatten()], self.count[words.flatten()])
        self._add(self.W, self.rows[place], gradient.flatten(0, -2)[which], rate, MOST)
