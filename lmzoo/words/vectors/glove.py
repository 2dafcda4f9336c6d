"""GloVe (Pennington, Socher & Manning, EMNLP 2014), https://aclanthology.org/D14-1162."""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.core.options import NonNegative, Size, configured
from lmzoo.corpus import Corpus
from lmzoo.numerics.sparse import SparseRows, csr
from lmzoo.words.vectors.cooccurrence import Cooccurrences
from lmzoo.words.vectors.method import Method, MethodOptions, methods

GROUP, GROUPS = 400, 100
"""About how many words a group has, and the most groups. With larger groups AdaGrad diverges, with smaller it is
slow."""

STEP_ENTRIES = 1 << 19
"""About how many entries of X a step takes."""


class Block(NamedTuple):
    """The P entries of X whose rows are one group of words and whose columns are another.

    Attributes:
        rows, columns: the groups, slices of all words.
        minus_log: sparse (R, C), -log X_ij where X_ij > 0, row by row.
        f: (P,) f(X_ij) in this order.
        by_row: (R, C) where they are, row by row.
        turned: (P,) places of the entries in the order of columns.
        by_column: (C, R) where they are in this order.
    """

    rows: slice
    columns: slice
    minus_log: Tensor
    f: Tensor
    by_row: SparseRows
    turned: Tensor
    by_column: SparseRows

    @classmethod
    def of(cls, rows: slice, columns: slice, row: Tensor, column: Tensor, log: Tensor, f: Tensor) -> "Block":
        """Entries in the order of rows, numbered from the first of their groups."""
        R, C = rows.stop - rows.start, columns.stop - columns.start
        starts = torch.searchsorted(row, torch.arange(R + 1, device=row.device))
        minus_log, by_row = csr(starts, column, -log, (R, C)), SparseRows(column, starts[:-1], C)
        return cls(rows, columns, minus_log, f, by_row, column.argsort(stable=True), by_row.mT)


class GloVeOptions(MethodOptions):
    dim: Size = 100
    """d, the dimension of vectors."""
    window: Size = 10
    """number of context words on each side."""
    x_max: NonNegative = 10.0
    """pairs with this count or more have weight 1; 100 in the paper, 10 in the example of glove.c."""
    alpha: NonNegative = 0.75
    """α; other pairs have weight f(x) = (x / x_max)^α."""
    epochs: Size = 15
    """number of passes over X, each in another order."""
    lr: NonNegative = 0.05
    """learning rate: gradients are multiplied by it, then divided by the root of 1 and the sum of their squares, as in
    glove.c."""


@methods.register("glove")
class GloVe(Method):
    """J = ½ Σ_ij f(X_ij) (w_i · w̃_j + b_i + b̃_j - log X_ij)² by AdaGrad (equations 8 and 9); vectors are w + w̃.

    X counts pairs of words k apart as 1/k. Words are put into groups at random. A step of AdaGrad takes the entries of
    X whose rows are of one group and whose columns are of another, so that its gradients are products of sparse
    matrices with tables that fit into the cache.
    """

    saved = ("parameters", "squares")
    any_device = True

    @configured(GloVeOptions)
    def __init__(self, options: GloVeOptions):
        super().__init__(options.min_count)
        self.dim, self.window, self.epochs, self.lr = options.dim, options.window, options.epochs, options.lr
        self.x_max, self.alpha = options.x_max, options.alpha

    def start(self, corpus: Corpus, seed: int) -> None:
        super().start(corpus, seed)
        self.seed = seed
        random = torch.Generator().manual_seed(seed)
        self.place = torch.randperm(len(self.words), generator=random)
        X = Cooccurrences.of(self.text, self.window, "harmonic")
        self.epoch = -(-len(X.row) // STEP_ENTRIES)
        self.steps = self.epochs * self.epoch
        shape = 2, len(self.words), self.dim + 2  # rows [w b 1] and [w̃ 1 b̃], in the order of groups
        self.parameters = (torch.rand(shape, generator=random) - 0.5) / self.dim
        self.parameters[0, :, -1] = self.parameters[1, :, -2] = 1
        self.squares = torch.ones(shape)
        self.parameters, self.squares = self.parameters.to(self.device), self.squares.to(self.device)
        self.blocks = self._blocks(X)

    def _blocks(self, X: Cooccurrences) -> list[Block]:
        """A block for each pair of groups."""
        K = min(GROUPS, -(-X.size // GROUP))
        bounds = [X.size * k // K for k in range(K + 1)]
        row, column = self.place[X.row], self.place[X.column]
        group = torch.bucketize(torch.arange(X.size), torch.tensor(bounds[1:-1]), right=True)
        order = (((group[row] * K + group[column]) * X.size + row) * X.size + column).argsort()
        row, column, weight = row[order], column[order], X.weight[order]
        f = (weight / self.x_max).clamp(max=1) ** self.alpha
        ends = (group[row] * K + group[column]).bincount(minlength=K * K).cumsum(0).tolist()
        groups = [slice(*ends) for ends in pairwise(bounds)]
        row, column, log, f = (part.to(self.device) for part in (row, column, weight.log(), f))
        blocks = []
        for n, its in enumerate(slice(*ends) for ends in pairwise([0, *ends])):
            rows, columns = groups[n // K], groups[n % K]
            its_row, its_column = row[its] - rows.start, column[its] - columns.start
            blocks.append(Block.of(rows, columns, its_row, its_column, log[its], f[its]))
        return blocks

    def vectors(self) -> Tensor:
        return self.parameters[:, self.place, : self.dim].sum(0)

    def step(self, number: int) -> dict[str, float]:
        epoch, part = divmod(number, self.epoch)
        random = torch.Generator().manual_seed((self.seed << 20) + epoch + 1)
        order = torch.randperm(len(self.blocks), generator=random).tolist()
        begin, end = (len(order) * k // self.epoch for k in (part, part + 1))
        blocks = [self.blocks[n] for n in order[begin:end]]
        loss = 0.0
        for block in blocks:  # a step of AdaGrad on each
            places = (0, block.rows), (1, block.columns)
            part, *gradients = glove(self.parameters[places[0]], self.parameters[places[1]], block)
            loss += part
            for place, gradient in zip(places, gradients, strict=True):
                gradient *= self.lr
                self.squares[place] += gradient**2
                self.parameters[place] -= gradient.mul_(self.squares[place].rsqrt())
        return {"train/loss": loss / max(1, sum(len(block.f) for block in blocks))}


def glove(w: Tensor, w_: Tensor, block: Block) -> tuple[float, Tensor, Tensor]:
    """½ Σ_ij f_ij (w_i · w̃_j + b_i + b̃_j - log X_ij)² over a block, and its gradient by each table.

    Args:
        w: (R, d + 2) [w b 1] of the rows' words. The gradient by the constant 1 is 0.
        w_: (C, d + 2) [w̃ 1 b̃] of the columns' words.
    """
    error = torch.sparse.sampled_addmm(block.minus_log, w, w_.mT).values()
    push = block.f * error
    to_w = block.by_row._replace(values=push) @ w_
    to_w_ = block.by_column._replace(values=push[block.turned]) @ w
    to_w[:, -1] = to_w_[:, -2] = 0
    return float(push @ error) / 2, to_w, to_w_
