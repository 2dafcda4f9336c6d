"""Dense and block-sparse tables as `lmzoo.protocol.abilities.HiddenChain`."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lmzoo.models.hmm.inference.underflow import log_linear, logsumexp_by_label

if TYPE_CHECKING:
    from lmzoo.models.hmm.block_hmm import BlockTables
    from lmzoo.models.hmm.dense_hmm import DenseTables

LARGEST = 2**29
"""How many transition probabilities are cached at most; larger models compute them again at each step."""

AT_ONCE = 16
"""How many rows of transitions are multiplied at once, so that they stay in the cache of a CPU."""


def _of_few(p: Tensor, table: Tensor) -> Tensor:
    """Multiply p (N, K) by a table (K, L), by those rows of it alone that have a weight: after draws these are few."""
    some = (p > 0).any(0).nonzero()[:, 0]
    return p @ table if 4 * len(some) > len(table) else p[:, some] @ table[some]


class DenseChain:
    """Every state leads to every state and emits every word.

    Transitions are in float64, because some may be below the range of float32.
    """

    def __init__(self, tables: "DenseTables"):
        self.start, self.emission = tables.start.double(), tables.emission
        self.transition = tables.transition.double().exp()
        self.emitting = tables.emission.T.exp().contiguous()  # (Z, V), of which a draw needs some rows

    def class_logprobs(self, classes: Tensor, number: int) -> Tensor:
        frequent = int(classes.bincount(minlength=number)[:number].argmax())  # a class of nearly all words, maybe
        sums = [
            self.emission[classes == c].logsumexp(0) if c != frequent else
            (self.emitting @ (classes == c).to(self.emitting.dtype)).log()
            for c in range(number)
        ]  # fmt: skip
        return torch.stack(sums).double()

    def step_backward(self, v: Tensor, needed: Tensor | None = None) -> Tensor:
        return log_linear(lambda p: p @ self.transition.T, v, torch.float64)

    def step_forward(self, u: Tensor, needed: Tensor | None = None) -> Tensor:
        return log_linear(lambda p: _of_few(p, self.transition), u, torch.float64)

    def words(self, w: Tensor) -> Tensor:
        return log_linear(lambda p: _of_few(p, self.emitting), w, self.emitting.dtype)

    def emission_logprobs(self, words: Tensor) -> Tensor:
        return self.emission[words].double()


class BlockChain:
    """The states of a cluster emit the words of this cluster alone.

    Only transitions between clusters that a pattern allows are computed, and they are cached.

    Args:
        cluster: (V,) int64 the cluster of each word.
    """

    def __init__(self, tables: "BlockTables", cluster: Tensor):
        self.start, self.emission, self.cluster = tables.start.double().flatten(), tables.emission, cluster
        self.transitions, (self.M, self.S) = tables.transitions, tables.start.shape
        order = cluster.argsort(stable=True)
        self.place = torch.empty_like(order).scatter(0, order, torch.arange(len(order), device=order.device))
        counts = cluster.bincount(minlength=self.M).tolist()
        self.emitting = tables.emission[order].exp().split(counts)  # of each cluster, (n, S)
        self.none = torch.arange(0), self.emission.new_empty(self.S, 0)
        self.cached: dict[int, tuple[Tensor, Tensor]] = {}

    def class_logprobs(self, classes: Tensor, number: int) -> Tensor:
        sums = logsumexp_by_label(self.emission, classes * self.M + self.cluster, (number + 1) * self.M)
        return sums.view(number + 1, -1)[:number].double()

    def step_backward(self, v: Tensor, needed: Tensor | None = None) -> Tensor:
        def product(p: Tensor) -> Tensor:
            result, blocks = torch.zeros_like(p), p.view(len(p), self.M, self.S)
            arriving = self._clusters(p > 0)
            leaving = torch.ones_like(arriving) if needed is None else self._clusters(needed)
            leaving = leaving & arriving.any(1, keepdim=True)
            kinds, kind = leaving.unique(dim=1, return_inverse=True)  # of clusters, by the rows that need them
            for number, some in enumerate(kinds.unbind(1)):
                rows, wanted = some.nonzero()[:, 0].to(p.device), arriving[some].any(0).nonzero()[:, 0]
                here = blocks[rows]
                for c in (kind == number).nonzero()[:, 0].tolist() if len(rows) else []:
                    targets, tiles = self._tiles(c, wanted)
                    ahead = (here if len(targets) == self.M else here[:, targets]).flatten(1)
                    sums = torch.cat([ahead @ part.T for part in tiles.split(AT_ONCE)], 1)
                    result[rows, c * self.S : (c + 1) * self.S] = sums
            return result

        return log_linear(product, v, self.emission.dtype)

    def step_forward(self, u: Tensor, needed: Tensor | None = None) -> Tensor:
        def product(p: Tensor) -> Tensor:
            result, blocks = torch.zeros_like(p).view(len(p), self.M, self.S), p.view(len(p), self.M, self.S)
            leaving = self._clusters(p > 0)
            arriving = torch.ones_like(leaving) if needed is None else self._clusters(needed)
            for c in leaving.any(0).nonzero()[:, 0].tolist():
                rows = leaving[:, c].nonzero()[:, 0]
                targets, tiles = self._tiles(c, arriving[rows].any(0).nonzero()[:, 0])
                sums = _of_few(blocks[rows.to(p.device), c], tiles).view(len(rows), -1, self.S)
                result[rows.to(p.device)[:, None], targets] += sums
            return result.flatten(1)

        return log_linear(product, u, self.emission.dtype)

    def words(self, w: Tensor) -> Tensor:
        def product(p: Tensor) -> Tensor:
            blocks, emitting = p.view(len(p), self.M, self.S), self._clusters(p > 0).any(0).tolist()
            sums = [
                blocks[:, c] @ table.T if some else p.new_zeros(len(p), len(table))
                for c, (table, some) in enumerate(zip(self.emitting, emitting, strict=True))
            ]
            return torch.cat(sums, 1)[:, self.place]

        return log_linear(product, w, self.emission.dtype)

    def emission_logprobs(self, words: Tensor) -> Tensor:
        blocks = self.start.new_full((len(words), self.M, self.S), -torch.inf)
        blocks[torch.arange(len(words)), self.cluster[words]] = self.emission[words].double()
        return blocks.flatten(1)

    def _clusters(self, states: Tensor) -> Tensor:
        """(N, Z) bool -> (N, M) bool, which clusters have a state that is true; on the CPU."""
        return states.view(len(states), self.M, self.S).any(2).cpu()

    def _tiles(self, source: int, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """(n,) clusters, among them the ``wanted`` (w,), and (S, nS) probabilities of their states after a cluster.

        The clusters are on the CPU.
        """
        targets, tiles = self.cached.get(source, self.none)
        if len(targets) < self.M and len(missing := wanted[~torch.isin(wanted, targets)]):
            if len(targets) + len(missing) > self.M // 2:
                targets, tiles = torch.arange(self.M), self.transitions.leaving(source).flatten(1).exp()
            else:
                further = self.transitions.tiles(torch.full_like(missing, source), missing)
                further = further.transpose(0, 1).flatten(1).exp_()
                targets, tiles = torch.cat([targets, missing]), torch.cat([tiles, further], 1)
            others = sum(known.numel() for at, (_, known) in self.cached.items() if at != source)
            if others + tiles.numel() <= LARGEST:
                self.cached[source] = targets, tiles
        if 4 * len(wanted) < len(targets):
            some = torch.isin(targets, wanted).nonzero()[:, 0]
            targets, tiles = targets[some], tiles.view(self.S, -1, self.S)[:, some].flatten(1)
        return targets, tiles


class FactoredChain(BlockChain):
    """A `BlockChain` with p(j | i) = Σ_r p(r | i) p(j | r) of few features r, by products with the two factors.

    Args:
        P, Q: (M, S, f) log p(r | i) and log p(j | r).
    """

    def __init__(self, tables: "BlockTables", cluster: Tensor, P: Tensor, Q: Tensor):
        super().__init__(tables, cluster)
        self.P, self.Q = P.flatten(0, 1).exp(), Q.flatten(0, 1).exp()

    def step_backward(self, v: Tensor, needed: Tensor | None = None) -> Tensor:
        return log_linear(lambda p: p @ self.Q @ self.P.T, v, self.P.dtype)

    def step_forward(self, u: Tensor, needed: Tensor | None = None) -> Tensor:
        return log_linear(lambda p: p @ self.P @ self.Q.T, u, self.P.dtype)
