"""Exponential models of indicator features, normalised exactly at the price of the features that can fire.

p(y | x) = exp s_x(y) / Z(x), s_x(y) the sum of the weights λ of the features that hold of x and y
(Rosenfeld, *A maximum entropy approach to adaptive statistical language modelling*, 1996). Each template of
features looks at some attributes of x: the last word, the last two, the class of the one before last. Taken
one template after another, what has been looked at so far is a context h that becomes ever finer, h' being
the one before. Only outcomes seen with what the template looks at change their score on the way, so

    Z(h) = U(h) + Σ_v exp s_h(v),   U(h) = Z(h') - Σ_v exp s_h'(v),   v seen with the template's attributes in h

and one pass over such pairs hv, coarsest first, gives every normaliser; one pass back gives the gradient.
With n-gram templates the pairs are the n-grams (Wu & Khudanpur, *Building a topic-dependent maximum entropy
model for very large corpora*, 2002); templates need not be nested. U(h) is a difference of sums, hence float64.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Level:
    """What one template adds: the K pairs hv of its C contexts and the outcomes it has features of.

    Of the first template, every possible outcome is listed.

    Attributes:
        begin, end: the pairs' numbers among those of all levels, in order.
        context: (K,) which of the C contexts h is; ascending.
        feature: (K,) the number of the feature that holds of hv.
        suffix: (K,) the number of the pair of h's coarser contexts, the finest that lists v; unused in the first.
        shorter: (C,) which context of the level below h' is; unused in the first.
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
        context: (N,) which context of the last level x is.
        said: (N,) the number of the finest pair of x and y.
    """

    levels: list[Level]
    context: Tensor
    said: Tensor


def exponentials(levels: list[Level], weights: Tensor) -> tuple[Tensor, Tensor]:
    """exp s of every pair of all levels, and Z of each context of the last, float64; ``weights`` are λ, (F,)."""
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


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weights: Tensor, lattice: Lattice) -> Tensor:
        e, Z = exponentials(lattice.levels, weights)
        ctx.save_for_backward(weights, e, Z)
        ctx.lattice = lattice
        return e[lattice.said].log() - Z[lattice.context].log()

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        g, lattice = upstream[0], ctx.lattice
        weights, e, Z = ctx.saved_tensors
        m = weights.double().exp()
        gradient = torch.zeros_like(m)  # with respect to λ
        to_e = torch.zeros_like(e).scatter_add_(0, lattice.said, g / e[lattice.said])
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


def token_logprobs(weights: Tensor, lattice: Lattice) -> Tensor:
    """log p(y | x) in nats of the lattice's outcomes, (N,) float64; differentiable in the weights λ, (F,)."""
    return _TokenLogprobs.apply(weights, lattice)
