"""Skip-gram and CBOW, by blocks of text.

Mikolov, Chen, Corrado & Dean (2013), https://arxiv.org/abs/1301.3781; Mikolov, Sutskever, Chen, Corrado & Dean, NIPS
2013, whose equation numbers are given. The text is cut into blocks of T words, which share S draws of the noise. The
pairs of words and contexts of a block are the entries near the diagonal of a matrix (`Band`). So a step is a few
products, and the gradients are written out. Rows that many words of a batch share, such as that of *the*,
get the sum of their steps, cut to what `CAP` of them would give.
"""

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.core.errors import UserError
from lmzoo.core.options import NonNegative, Probability, Size, configured
from lmzoo.corpus import Corpus
from lmzoo.words.vectors.gradients import Band, cbow, skipgram
from lmzoo.words.vectors.method import Method, MethodOptions, methods

T, BLOCKS, CAP = 64, 16, 8
"""Words of a block, blocks of a batch, and the most occurrences whose steps a row takes in full."""

MEASURED = 8
"""The loss of one batch in so many is measured."""

STEP_TOKENS = 1 << 16
"""About how many tokens of the text are read in a step."""

DIVERGED = 100
"""No loss of a term is above this many nats, unless the vectors grow without end."""

LAST_RATE = 0.004
"""Where the learning rate ends, as a share of the first."""


class Word2VecOptions(MethodOptions):
    dim: Size = 100
    """d, the dimension of vectors."""
    window: Size = 5
    """L, the maximum window; contexts of a word are up to b words on each side, b drawn from 1 … L for each."""
    negative: Size = 5
    """k, the number of negative samples per pair."""
    shared: Size = 64
    """S, the negative samples that the words of a block share, with weight k/S each."""
    exponent: Probability = 0.75
    """negative samples are drawn by frequency to this power, ∝ n^exponent."""
    sample: NonNegative = 0.001
    """t of the subsampling of frequent words (equation 5; as in word2vec.c, a word is kept with probability √(t/f) +
    t/f); 0 keeps all."""
    epochs: Size = 5
    """number of passes over the training text."""
    lr: NonNegative = 0.025
    """initial learning rate, which falls linearly to `LAST_RATE` of it, almost 0."""


class Word2Vec(Method):
    """What skip-gram and CBOW share: the text, its order, and the steps."""

    saved = ("W", "C")
    any_device = True

    @configured(Word2VecOptions)
    def __init__(self, options: Word2VecOptions):
        super().__init__(options.min_count)
        self.options = options

    def start(self, corpus: Corpus, seed: int) -> None:
        super().start(corpus, seed)
        self.text.require_neighbours()
        self.seed, o = seed, self.options
        self.epoch = -(-len(self.text.tokens) // STEP_TOKENS)
        self.steps = o.epochs * self.epoch
        counts = self.text.counts.double()
        share = o.sample * counts.sum() / counts
        self.keep_probability = (share.sqrt() + share if o.sample else torch.ones_like(counts)).float()
        noise = counts**o.exponent
        self.noise = (noise / noise.sum()).cumsum(0).float()
        random = torch.Generator().manual_seed(seed)
        self.W = (torch.rand(len(self.words), o.dim, generator=random) - 0.5) / o.dim
        self.W = self.W.to(self.device)
        self.C = torch.zeros_like(self.W)
        self.distance = torch.arange(-o.window, o.window + 1).abs()
        self.distance[o.window] = o.window + 1  # a word is not its context
        self.read: tuple[int, Tensor, Tensor] | None = None

    def vectors(self) -> Tensor:
        return self.W

    def _blocks(self, epoch: int) -> tuple[Tensor, Tensor]:
        """(n, T + 2L) tokens and lines of an epoch's blocks, in its order: what subsampling leaves of the text."""
        if self.read is None or self.read[0] != epoch:
            random, L = torch.Generator().manual_seed((self.seed << 20) + 2 * epoch + 1), self.options.window
            kept = torch.rand(len(self.text.tokens), generator=random) < self.keep_probability[self.text.tokens]
            tokens, lines = self.text.tokens[kept], self.text.lines[kept]
            if -(-len(tokens) // T) < self.epoch:
                raise UserError(f"method.sample={self.options.sample}: leaves too few words of the text", "raise it")
            sides = L, L + -len(tokens) % T
            tokens, lines = F.pad(tokens, sides), F.pad(lines.int(), sides, value=-1)
            order = torch.randperm((len(tokens) - 2 * L) // T, generator=random)
            self.read = epoch, tokens.unfold(0, T + 2 * L, T)[order], lines.unfold(0, T + 2 * L, T)[order]
        return self.read[1], self.read[2]

    def _near(self, lines: Tensor, random: torch.Generator) -> Tensor:
        """(B, T + 2L) lines, -1 beside the text -> (B, T, 2L + 1) which words on either side are contexts."""
        L = self.options.window
        words = lines[:, L : L + T].masked_fill(lines[:, L : L + T] < 0, -2)[:, :, None]
        most = torch.randint(1, L + 1, (len(lines), T, 1), generator=random, dtype=torch.int16)
        return ((self.distance <= most) & (lines.unfold(1, 2 * L + 1, 1) == words)).float()

    def step(self, number: int) -> dict[str, float]:
        epoch, part = divmod(number, self.epoch)
        tokens, lines = self._blocks(epoch)
        this = slice(len(tokens) * part // self.epoch, len(tokens) * (part + 1) // self.epoch)
        random = torch.Generator().manual_seed((self.seed << 20) + 2 * number)
        drawn = torch.rand(this.stop - this.start, self.options.shared, generator=random)
        noise = torch.searchsorted(self.noise, drawn).clamp(max=len(self.noise) - 1)
        rate = self.options.lr * max(LAST_RATE, 1 - number / self.steps)
        loss, terms = 0.0, 0
        near = self._near(lines[this], random)
        batches = zip(*(part.split(BLOCKS) for part in (tokens[this], near, noise)), strict=True)
        for i, parts in enumerate(batches):
            blocks, context, drawn = (part.to(self.device) for part in parts)
            measured = i % MEASURED == 0
            loss += self.descend(blocks, context, drawn, rate, measured)
            terms += measured and int(self.terms(context).sum())
        if loss > DIVERGED * max(1, terms):
            problem = f"method.lr={self.options.lr}: training diverges (loss {loss / terms:.3g} nats)"
            raise UserError(problem, "lower it, and choose another run_dir")
        return {"train/loss": loss / max(1, terms), "train/learning_rate": rate}

    @abstractmethod
    def descend(self, tokens: Tensor, near: Tensor, noise: Tensor, rate: float, measured: bool) -> float:
        """One step down the gradient of a batch's loss; returns the loss, Σ of its `terms` in nats, if ``measured``.

        Args:
            tokens: (B, T + 2L) the words of each block, with L on either side.
            near: (B, T, 2L + 1) whether a word L before … L after is a context: 1 or 0.
            noise: (B, S) drawn words.
        """

    def terms(self, near: Tensor) -> Tensor:
        """1 for each term of the loss of a batch, 0 elsewhere: for each word and context."""
        return near

    def _add(self, table: Tensor, rows: Tensor, gradient: Tensor, rate: float, most: int = CAP) -> None:
        """Subtract ``rate`` times a gradient from rows of a table; the steps of one row count as at most ``most``."""
        rows, gradient = rows.flatten(), gradient.flatten(0, -2)
        often = rows.bincount(minlength=len(table)).index_select(0, rows)
        table.index_add_(0, rows, gradient.mul_((most / often).clamp_(max=1).mul_(-rate)[:, None]))


@methods.register("skipgram")
class SkipGram(Word2Vec):
    """Skip-gram: a word w discriminates each of its contexts c from noise, σ(v_w · v'_c) (equation 4)."""

    def of_words(self, words: Tensor) -> Tensor:
        """(…) words -> (…, d) their vectors v."""
        return F.embedding(words, self.W)

    def learn(self, words: Tensor, gradient: Tensor, rate: float) -> None:
        """Take ``rate`` times the (…, d) gradients of the vectors of (…) words off what they are made of."""
        self._add(self.W, words, gradient, rate)

    def descend(self, tokens: Tensor, near: Tensor, noise: Tensor, rate: float, measured: bool) -> float:
        L = self.options.window
        words = tokens[:, L : L + T]
        w, c, n = self.of_words(words), F.embedding(tokens, self.C), F.embedding(noise, self.C)
        loss, to_w, to_c, to_n = skipgram(w, c, n, near, self.options.negative, measured)
        self.learn(words, to_w, rate)
        contexts = torch.cat([tokens, noise], 1)
        self._add(self.C, contexts, torch.cat([to_c, to_n], 1), rate)
        return loss


@methods.register("cbow", shared=16, lr=0.05)
class CBOW(Word2Vec):
    """Continuous bag of words: the mean h of its contexts' vectors discriminates a word from noise, σ(h · v'_w)."""

    def descend(self, tokens: Tensor, near: Tensor, noise: Tensor, rate: float, measured: bool) -> float:
        L = self.options.window
        words = tokens[:, L : L + T]
        number = near.sum(2, keepdim=True)  # of contexts
        has_context = number.clamp(max=1)[:, :, 0]
        band = Band.of(len(words), T, L, words.device)
        h = band.to_words(near / number.clamp(min=1), F.embedding(tokens, self.W))  # (B, T, d)
        predicted = torch.cat([words.flatten(), noise.flatten()])
        c = F.embedding(predicted, self.C)
        loss, to_h, to_c = cbow(h, c, has_context, self.options.negative, measured)
        self._add(self.C, predicted, to_c, rate)
        to_contexts = band.to_places(near, to_h)  # in full for each context, as in word2vec.c
        self._add(self.W, tokens, to_contexts, rate)
        return loss

    def terms(self, near: Tensor) -> Tensor:
        return near.any(2)
