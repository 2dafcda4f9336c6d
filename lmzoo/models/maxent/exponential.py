"""An exponential model of one kind of outcome as a module: features, weights, and what sets them."""

import logging
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.models.maxent.features import Features, Template, coarse_to_fine, collect
from lmzoo.models.maxent.lattice import exponentials, token_logprobs
from lmzoo.models.maxent.owlqn import minimise
from lmzoo.protocol.model import sized_by_estimate

log = logging.getLogger("lmzoo")

Text = tuple[Tensor, Tensor]
"""Histories, (N, columns) attributes of `lmzoo.models.maxent.features`, and the (N,) outcomes after them."""


def require_strengths(**options: Sequence[float]) -> None:
    """Raises: UserError naming an option of penalties that has none."""
    for name, strengths in options.items():
        if not strengths:
            raise UserError(f"model.{name}=[]: must be a strength for each order, the last for all higher ones")


class Exponential(nn.Module):
    """p(y | x) ∝ exp Σ λ over the features that hold of x and y; see `lmzoo.models.maxent.lattice`.

    Args:
        possible: every outcome (V,) y after the history (V, columns) that the coarsest template has of it.
        size: attributes are 0 … size - 1, the last standing for what there is not.
        templates: columns of attributes, see `lmzoo.models.maxent.features`.
        l2, l1: strengths of the penalties Σ l2/2 λ² + l1 |λ| in nats of the whole text, by how many attributes
            a feature's template has beyond the coarsest, the last for all higher numbers.
        trainable: whether the weights are a parameter, for gradient descent, else a buffer that `fit` sets.
    """

    nodes: Tensor
    pairs: Tensor
    place: Tensor
    tokens: Tensor
    weights: Tensor

    def __init__(
        self,
        possible: Text,
        *,
        size: int,
        templates: Sequence[Template],
        l2: Sequence[float],
        l1: Sequence[float],
        trainable: bool,
    ):
        super().__init__()
        self.size, self.outcomes, self.columns = size, len(possible[1]), possible[0].shape[1]
        self.templates = coarse_to_fine(templates)
        beyond = [len(template) - len(self.templates[0]) for template in self.templates]
        self.l2, self.l1 = ([float(s[min(n, len(s) - 1)]) for n in beyond] for s in (l2, l1))
        for name in ("nodes", "pairs", "place", "tokens"):
            self.register_buffer(name, torch.empty(0, dtype=torch.int64))
        if trainable:
            self.weights = nn.Parameter(torch.empty(0))
        else:
            self.register_buffer("weights", torch.empty(0))
        x, y = possible
        self.collect((x[:0], y[:0]), possible)
        sized_by_estimate(self, "nodes", "pairs", "place", "weights")

    @property
    def features(self) -> Features:
        """The buffers as what they are."""
        return Features(self.templates, self.size, self.columns, self.outcomes, self.nodes, self.pairs)

    def collect(self, text: Text, possible: Text) -> Tensor:
        """Take the features of a text and of what is possible; how often each occurs, (F,).

        The coarsest have weights like log counts to begin with, since from uniform probabilities rare outcomes are
        thrown too far; all others zero.
        """
        x, y = (torch.cat(parts) for parts in zip(text, possible, strict=True))
        features, counts, self.place = collect(x, y, self.templates, self.size, self.outcomes)
        self.nodes, self.pairs = features.nodes, features.pairs
        self.tokens = torch.tensor(len(text[0]), device=y.device)
        coarsest = self.place == 0
        frequency = counts.to(self.weights.dtype).log()
        # of the same parameter, which an optimizer has
        self.weights.data = (frequency - frequency[coarsest].mean()).where(coarsest, 0.0)
        return counts

    def fit(self, text: Text, possible: Text, *, tolerance: float, max_iterations: int) -> None:
        """Take a text's features with the weights that minimise its penalised negative log-likelihood (OWL-QN)."""
        counts = self.collect(text, possible)
        lattice = self.features.lattice(*text)
        l2, l1 = self.strengths(torch.float64)

        def objective(weights: Tensor) -> tuple[float, Tensor]:
            weights = weights.detach().requires_grad_()
            value = (l2 @ weights**2) / 2 - token_logprobs(weights, lattice).sum()
            (gradient,) = torch.autograd.grad(value, weights)
            return float(value.detach()), gradient

        # At the optimum features are expected about as often as observed, and rare ones vary as Poisson counts do.
        found = minimise(
            objective,
            self.weights.detach().double(),
            l1=l1,
            curvature=counts + l2,
            tolerance=tolerance,
            max_iterations=max_iterations,
        )
        self.weights.data = found.x.to(self.weights.dtype)
        sizes = torch.bincount(self.place, minlength=len(self.templates)).tolist()
        used = torch.bincount(self.place[found.x != 0], minlength=len(self.templates)).tolist()
        log.info(
            "objective %.6f nats a token after %d iterations%s, %s pairs; weights not zero: %s",
            found.value / len(text[0]), found.iterations, "" if found.converged else ", not converged",
            f"{lattice.levels[-1].end:,}", ", ".join(f"{u:,} of {k:,}" for u, k in zip(used, sizes, strict=True)),
        )  # fmt: skip

    def strengths(self, dtype: torch.dtype) -> list[Tensor]:
        """The strengths l2 and l1 of each feature, (F,)."""
        return [torch.tensor(s, dtype=dtype, device=self.place.device)[self.place] for s in (self.l2, self.l1)]

    def penalty(self) -> Tensor:
        """Of the weights, in nats per token of the text they were collected from."""
        l2, l1 = self.strengths(self.weights.dtype)
        return (l2 @ self.weights**2 / 2 + l1 @ self.weights.abs()) / self.tokens

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """log p(y | x) in nats of (N, columns) attributes and (N,) outcomes, (N,)."""
        return token_logprobs(self.weights, self.features.lattice(x, y)).to(self.weights.dtype)

    @torch.no_grad()
    def predict(self, x: Tensor, share: int = 1) -> Tensor:
        """log p(y | x) of every outcome, without a gradient: (N · share, columns) -> (N, outcomes).

        Args:
            share: so many histories, none of which lists the outcomes of another, stand in one row.
        """
        features = self.features
        levels, _ = features.levels(x, shared=False)
        e, Z = exponentials(levels, self.weights)
        e, Z = e.log().to(self.weights.dtype), Z.log().to(self.weights.dtype)
        logprobs = self.weights.new_full((len(x) // share, self.outcomes), -torch.inf)
        for level in levels:
            where = (level.context // share, features.outcome(level.feature))
            logprobs[where] = e[level.begin : level.end] - Z[level.context]
        return logprobs
