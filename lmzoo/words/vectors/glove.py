"""GloVe (Pennington, Socher & Manning, EMNLP 2014), https://aclanthology.org/D14-1162."""

from collections.abc import Mapping

import torch
from torch import Tensor

from lmzoo.core.options import NonNegative, Size
from lmzoo.corpus import Corpus
from lmzoo.words.vectors.cooccurrence import Cooccurrences
from lmzoo.words.vectors.method import Method, methods
from lmzoo.words.vectors.text import WordText

BATCH = 1 << 13
"""Entries of X whose gradients are summed."""

STEP_ENTRIES = 1 << 19
"""About how many entries of X a step takes."""


@methods.register("glove")
class GloVe(Method):
    """J = ½ Σ_ij f(X_ij) (w_i · w̃_j + b_i + b̃_j - log X_ij)² by AdaGrad (equations 8 and 9); vectors are w + w̃.

    X counts pairs of words k apart as 1/k.

    Args:
        dim: d.
        window: how many words on either side are contexts.
        x_max, alpha: f(x) = min(1, x / x_max)^α.
        min_count: rarer words have no vector.
        epochs: how often X is read, each time in another order.
        lr: AdaGrad's rate; squared gradients add to 1.
    """

    def __init__(
        self,
        *,
        dim: Size,
        window: Size,
        x_max: NonNegative,
        alpha: NonNegative,
        min_count: Size,
        epochs: Size,
        lr: NonNegative,
    ):
        self.dim, self.window, self.x_max, self.alpha = dim, window, x_max, alpha
        self.min_count, self.epochs, self.lr = min_count, epochs, lr

    def start(self, corpus: Corpus, seed: int) -> None:
        self.text, self.seed = WordText.of(corpus, self.min_count), seed
        self.words = self.text.words
        X = Cooccurrences.of(self.text, self.window, "harmonic")
        self.row, self.column, self.log = X.row, X.column, X.weight.log()
        self.f = (X.weight / self.x_max).clamp(max=1) ** self.alpha
        self.parts = -(-len(self.row) // STEP_ENTRIES)
        self.steps = self.epochs * self.parts
        random = torch.Generator().manual_seed(seed)
        shape = 2, len(self.words), self.dim + 1  # of w and of w̃, each with its bias at the end
        self.parameters = (torch.rand(shape, generator=random) - 0.5) / self.dim
        self.squares = torch.ones(shape)
        self.order: tuple[int, Tensor] | None = None

    def tokens(self, number: int) -> int:
        epochs, parts = divmod(number, self.parts)
        return epochs * len(self.text.tokens) + len(self.text.tokens) * parts // self.parts

    def state(self) -> Mapping[str, Tensor]:
        return {"parameters": self.parameters, "squares": self.squares}

    def vectors(self) -> Tensor:
        return self.parameters[:, :, :-1].sum(0)

    def step(self, number: int) -> dict[str, float]:
        epoch, part = divmod(number, self.parts)
        if self.order is None or self.order[0] != epoch:
            random = torch.Generator().manual_seed((self.seed << 20) + epoch + 1)
            self.order = epoch, torch.randperm(len(self.row), generator=random)
        total, entries = (
            0.0,
            self.order[1][len(self.row) * part // self.parts : len(self.row) * (part + 1) // self.parts],
        )
        for places in entries.split(BATCH):
            total += self._descend(places)
        return {"train/loss": total / max(1, len(entries))}

    def _descend(self, places: Tensor) -> float:
        """One step of AdaGrad on the entries of X at some places; returns their part of J."""
        rows = self.row[places], self.column[places]
        w, w_ = (table[row] for table, row in zip(self.parameters, rows, strict=True))
        loss, *gradients = glove(w, w_, self.log[places], self.f[places])
        for table, squares, row, gradient in zip(self.parameters, self.squares, rows, gradients, strict=True):
            squares.index_add_(0, row, gradient**2)
            table.index_add_(0, row, gradient.mul_(squares[row].rsqrt_()), alpha=-self.lr)
        return loss


def glove(w: Tensor, w_: Tensor, log: Tensor, f: Tensor) -> tuple[float, Tensor, Tensor]:
    """½ Σ_n f_n (w_n · w̃_n + b_n + b̃_n - log X_n)² and its gradient by [w b] and by [w̃ b̃], (N, d + 1) each."""
    error = (w[:, :-1] * w_[:, :-1]).sum(1) + w[:, -1] + w_[:, -1] - log
    push = (f * error)[:, None]
    to_w, to_w_ = push * w_, push * w
    to_w[:, -1], to_w_[:, -1] = push[:, 0], push[:, 0]
    return float((f * error**2).sum()) / 2, to_w, to_w_
