"""An exponential model of one kind of outcome: its features, its weights, and how they are set."""

import logging
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.models.maxent.features import Features, Template, coarse_to_fine, collect
from lmzoo.models.maxent.lattice import exponentials, outcome_logprobs
from lmzoo.numerics.owlqn import minimise
from lmzoo.protocol.state_dict import sized_by_estimate

log = logging.getLogger("lmzoo")

Events = tuple[Tensor, Tensor]
"""The (N, columns) attributes of histories, see `lmzoo.models.maxent.features`, and the (N,) outcomes after them."""


def require_strengths(**options: Sequence[float]) -> None:
    """Raises: UserError that names an option of penalties without a strength."""
    for name, strengths in options.items():
        if not strengths:
            raise UserError(f"model.{name}=[]: must be a coefficient for each order, the last for all higher ones")


class Exponential(nn.Module):
    """p(y | x) ∝ exp Σ λ over the features that hold of x and y; see `lmzoo.models.maxent.lattice`.

    Args:
        possible: every outcome y, each after a history with only the attributes that the coarsest template looks at.
        size: attributes are 0 … size - 1. The last one stands for an absent attribute.
        templates: columns of attributes, see `lmzoo.models.maxent.features`.
        l2, l1: strengths of the penalties Σ l2/2 λ² + l1 |λ| in nats of the whole text. The strength of a feature is
            chosen by the number of attributes that its template has beyond the coarsest template; the last strength
            is also that of all higher numbers.
        trainable: whether the weights are a parameter, for gradient descent. Else they are a buffer that `fit` sets.
    """

    estimated_tensors = ("weights",)

    def __init__(
        self,
        possible: Events,
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
        self.nodes, self.pairs, self.place = (nn.Buffer(torch.empty(0, dtype=torch.int64)) for _ in range(3))
        self.tokens = nn.Buffer(torch.tensor(0))
        self.weights = (nn.Parameter if trainable else nn.Buffer)(torch.empty(0))
        x, y = possible
        self.collect((x[:0], y[:0]), possible)
        sized_by_estimate(self, "nodes", "pairs", "place", "weights")

    @property
    def features(self) -> Features:
        """The buffers as features."""
        return Features(self.templates, self.size, self.columns, self.outcomes, self.nodes, self.pairs)

    def collect(self, events: Events, possible: Events) -> Tensor:
        """Take the features of a text's events and of every possible outcome; returns the (F,) occurrences of each.

        The weights of the coarsest features begin at their log counts, less the mean. From uniform probabilities, the
        first steps would move rare outcomes too far. All other weights begin at zero.
        """
        x, y = (torch.cat(parts) for parts in zip(events, possible, strict=True))
        features, counts, self.place = collect(x, y, self.templates, self.size, self.outcomes)
        self.nodes, self.pairs = features.nodes, features.pairs
        self.tokens = torch.tensor(len(events[0]), device=y.device)
        coarsest = self.place == 0
        frequency = counts.to(self.weights.dtype).log()
        # The data only: an optimizer holds the parameter.
        self.weights.data = (frequency - frequency[coarsest].mean()).where(coarsest, 0.0)
        return counts

    def fit(self, events: Events, possible: Events, *, tolerance: float, max_iterations: int) -> None:
        """`collect`, and take the weights of the least penalised negative log-likelihood; see `minimise`."""
        counts = self.collect(events, possible)
        lattice = self.features.lattice(*events)
        l2, l1 = self.strengths(torch.float64)

        def objective(weights: Tensor) -> tuple[float, Tensor]:
            weights = weights.detach().requires_grad_()
            value = (l2 @ weights**2) / 2 - outcome_logprobs(weights, lattice).sum()
            (gradient,) = torch.autograd.grad(value, weights)
            return float(value.detach()), gradient

        # At the optimum, the expected count of a feature is about the observed one, and the count of a rare feature
        # varies as a Poisson count does.
        optimum = minimise(
            objective,
            self.weights.detach().double(),
            l1=l1,
            curvature=counts + l2,
            tolerance=tolerance,
            max_iterations=max_iterations,
        )
        self.weights.data = optimum.point.x.to(self.weights.dtype)
        sizes = torch.bincount(self.place, minlength=len(self.templates)).tolist()
        used = torch.bincount(self.place[optimum.point.x != 0], minlength=len(self.templates)).tolist()
        log.info(
            "objective %.6f nats a token after %d iterations%s, %s pairs; non-zero weights: %s",
            optimum.point.value / len(events[0]), optimum.iterations, "" if optimum.converged else ", not converged",
            f"{lattice.levels[-1].end:,}", ", ".join(f"{u:,} of {k:,}" for u, k in zip(used, sizes, strict=True)),
        )  # fmt: skip

    def strengths(self, dtype: torch.dtype) -> list[Tensor]:
        """The strengths l2 and l1 of each feature, (F,)."""
        return [torch.tensor(s, dtype=dtype, device=self.place.device)[self.place] for s in (self.l2, self.l1)]

    def penalty(self) -> Tensor:
        """The penalty of the weights, in nats per token of the text that the features were collected from."""
        l2, l1 = self.strengths(self.weights.dtype)
        return (l2 @ self.weights**2 / 2 + l1 @ self.weights.abs()) / self.tokens

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """(N, columns) attributes and (N,) outcomes -> (N,) log p(y | x) in nats."""
        return outcome_logprobs(self.weights, self.features.lattice(x, y)).to(self.weights.dtype)

    @torch.no_grad()
    def predict(self, x: Tensor, share: int = 1) -> Tensor:
        """(N · share, columns) attributes -> (N, outcomes) log p(y | x) in nats, without a gradient.

        Args:
            share: the number of successive histories that share a row of the result. No two of them may list the same
                outcome.
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
