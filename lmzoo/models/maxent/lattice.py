"""Exponential models of indicator features, normalised exactly at the cost of the features that can hold.

p(y | x) = exp s_x(y) / Z(x), where s_x(y) is the sum of the weights λ of the features that hold of x and y
(Rosenfeld, *A maximum entropy approach to adaptive statistical language modelling*, 1996).

The templates of features are taken one after another. The attributes looked at so far are a context h, which becomes
ever finer; h' is the context before the last template. A template changes the score only of the outcomes v that were
seen with the attributes that it looks at in h. So

    Z(h) = U(h) + Σ_v exp s_h(v),   U(h) = Z(h') - Σ_v exp s_h'(v)

where U(h) is the part of the other outcomes. One pass over the pairs hv, coarsest first, gives every normaliser, and
one pass back gives the gradient. With n-gram templates the pairs are the n-grams (Wu & Khudanpur, *Building a
topic-dependent maximum entropy model for very large corpora*, 2002). Templates need not be nested. U(h) is a difference
of sums, hence float64.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Level:
    """One template: the K pairs hv of its C contexts h and the outcomes v that it has features of.

    Attributes:
        begin, end: the pairs have the numbers begin … end - 1 among the pairs of all levels.
        context: (K,) ascending; which of the C contexts h is.
        feature: (K,) the number of the feature that holds of hv.
        suffix: (K,) the number of the pair of v and the finest context coarser than h that lists v; of no use in the
            first level, which lists every possible outcome.
        shorter: (C,) which context of the level before is h'.
    """

    begin: int
    end: int
    context: Tensor
    feature: Tensor
    suffix: Tensor
    shorter: Tensor

    def total(self, values: Tensor) -> Tensor:
        """Σ_v values(hv) of each context, (C,)."""
        return values.new_zeros(len(self.shorter)).scatter_add_(0, self.context, values)


@dataclass(frozen=True)
class Lattice:
    """The pairs that score N outcomes y, each given its x.

    Attributes:
        levels: one for each template, from coarse to fine.
        context: (N,) which context of the last level x is.
        observed: (N,) the number of the finest pair of x and y.
    """

    levels: list[Level]
    context: Tensor
    observed: Tensor


def exponentials(levels: list[Level], weights: Tensor) -> tuple[Tensor, Tensor]:
    """(F,) weights λ -> exp s of every pair of all levels, and Z of each context of the last level, float64."""
    m = weights.double().exp()
    e = m.new_empty(levels[-1].end)
    Z = m[:0]
    for level in levels:
        here = e[level.begin : level.end]
        if level is levels[0]:
            torch.index_select(m, 0, level.feature, out=here)
            Z = level.total(here)
        else:
            below = e.index_select(0, level.suffix)  # (K,)
            torch.mul(below, m.index_select(0, level.feature), out=here)
            unseen = (Z.index_select(0, level.shorter) - level.total(below)).clamp_(min=0.0)
            Z = unseen.add_(level.total(here))
    return e, Z


class _OutcomeLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, lattice: Lattice) -> Tensor:
        e, Z = exponentials(lattice.levels, weights)
        ctx.save_for_backward(weights, e, Z)
        ctx.lattice = lattice
        return e[lattice.observed].log() - Z[lattice.context].log()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        g, lattice = upstream[0], ctx.lattice
        weights, e, Z = ctx.saved_tensors
        m = weights.double().exp()
        gradient = torch.zeros_like(m)  # with respect to λ
        to_e = torch.zeros_like(e).scatter_add_(0, lattice.observed, g / e[lattice.observed])
        to_Z = torch.zeros_like(Z).scatter_add_(0, lattice.context, -g / Z[lattice.context])
        levels = lattice.levels
        for number, level in reversed(list(enumerate(levels))):
            pull = to_Z.index_select(0, level.context)  # (K,)
            here = to_e[level.begin : level.end].add_(pull)
            gradient.scatter_add_(0, level.feature, here * e[level.begin : level.end])
            if number > 0:
                to_e.scatter_add_(0, level.suffix, pull.neg_().addcmul_(here, m.index_select(0, level.feature)))
                coarser = to_Z.new_zeros(len(levels[number - 1].shorter))
                to_Z = coarser.scatter_add_(0, level.shorter, to_Z)
        return gradient.to(weights.dtype), None


def outcome_logprobs(weights: Tensor, lattice: Lattice) -> Tensor:
    """(N,) float64 log p(y | x) in nats of the lattice's outcomes; differentiable in the (F,) weights λ."""
    return _OutcomeLogprobs.apply(weights, lattice)
