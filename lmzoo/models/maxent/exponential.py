"""An exponential model of one kind of outcome: its features, its weights, and how they are set."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.models.maxent.features import Features, Template, coarse_to_fine, collect
from lmzoo.models.maxent.lattice import exponentials, outcome_logprobs
from lmzoo.numerics.owlqn import minimise
from lmzoo.protocol.model import number_kind, numbers_outside, sized_by_estimate

log = logging.getLogger("lmzoo")

Text = tuple[Tensor, Tensor]
"""The (N, columns) attributes of histories, see `lmzoo.models.maxent.features`, and the (N,) outcomes after them."""


def require_strengths(**options: Sequence[float]) -> None:
    """Raises: UserError that names an option of penalties without a strength."""
    for name, strengths in options.items():
        if not strengths:
            raise UserError(f"model.{name}=[]: must be a strength for each order, the last for all higher ones")


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

    learnt = ("weights",)
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
        for name in ("nodes", "pairs", "place"):
            self.register_buffer(name, torch.empty(0, dtype=torch.int64))
        self.register_buffer("tokens", torch.tensor(0))
        if trainable:
            self.weights = nn.Parameter(torch.empty(0))
        else:
            self.register_buffer("weights", torch.empty(0))
        x, y = possible
        if not x.is_meta:  # where a checkpoint is to be compared alone, which has the features
            self.collect((x[:0], y[:0]), possible)
        sized_by_estimate(self, "nodes", "pairs", "place", "weights")
        self.register_load_state_dict_pre_hook(_check_features)

    @property
    def features(self) -> Features:
        """The buffers as features."""
        return Features(self.templates, self.size, self.columns, self.outcomes, self.nodes, self.pairs)

    def collect(self, text: Text, possible: Text) -> Tensor:
        """Take the features of a text and of every possible outcome; returns the (F,) occurrences of each.

        The weights of the coarsest features begin at their log counts, less the mean. From uniform probabilities, the
        first steps would move rare outcomes too far. All other weights begin at zero.
        """
        x, y = (torch.cat(parts) for parts in zip(text, possible, strict=True))
        features, counts, self.place = collect(x, y, self.templates, self.size, self.outcomes)
        self.nodes, self.pairs = features.nodes, features.pairs
        self.tokens = torch.tensor(len(text[0]), device=y.device)
        coarsest = self.place == 0
        frequency = counts.to(self.weights.dtype).log()
        # The data only: an optimizer holds the parameter.
        self.weights.data = (frequency - frequency[coarsest].mean()).where(coarsest, 0.0)
        return counts

    def fit(self, text: Text, possible: Text, *, tolerance: float, max_iterations: int) -> None:
        """Take a text's features, and the weights that minimise its penalised negative log-likelihood (OWL-QN).

        Args:
            tolerance, max_iterations: when the search ends, see `minimise`.
        """
        counts = self.collect(text, possible)
        lattice = self.features.lattice(*text)
        l2, l1 = self.strengths(torch.float64)

        def objective(weights: Tensor) -> tuple[float, Tensor]:
            weights = weights.detach().requires_grad_()
            value = (l2 @ weights**2) / 2 - outcome_logprobs(weights, lattice).sum()
            (gradient,) = torch.autograd.grad(value, weights)
            return float(value.detach()), gradient

        # At the optimum, the expected count of a feature is about the observed one, and the count of a rare feature
        # varies as a Poisson count does.
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


def _check_features(model: Exponential, saved: Mapping[str, Any], prefix: str, *others: Any) -> None:
    """Refuse a checkpoint of another model, whose sizes `sized_by_estimate` lets in."""
    values = [saved.get(prefix + name) for name in ("nodes", "pairs", "place", "weights")]
    vectors = [value for value in values if isinstance(value, Tensor) and value.ndim == 1]
    whole = all(number_kind(vector) == "whole" for vector in vectors[:3])
    if len(vectors) == len(values) and whole and (problem := _mismatch(model, *vectors)):
        others[-1].append(problem)  # to the errors of load_state_dict


def _mismatch(model: Exponential, nodes: Tensor, pairs: Tensor, place: Tensor, weights: Tensor) -> str | None:
    """What shows that the features of a checkpoint have other outcomes, templates or attributes than a model."""
    if not len(pairs) == len(place) == len(weights):
        return f"the checkpoint has {len(pairs)} features, and numbers for {len(place)} and {len(weights)}"
    if (outcomes := int((place == 0).sum())) != model.outcomes:  # the coarsest template lists each once
        return f"the checkpoint has {outcomes} outcomes, and this model has {model.outcomes}"
    if (templates := int(place.max()) + 1) > len(model.templates):
        return f"the checkpoint has {templates} templates, and this model has {len(model.templates)}"
    above = nodes // model.size  # (R,) parent's row · columns + column
    if (above // model.columns > torch.arange(len(above), device=above.device)).any():  # a parent comes first
        return f"the checkpoint has attributes of another size than this model's {model.size}"
    outside = numbers_outside(pairs, (len(nodes) + 1) * model.outcomes) or numbers_outside(place, len(model.templates))
    if outside or (nodes < 0).any() or not all((keys.diff() > 0).all() for keys in (nodes, pairs)):
        return "the checkpoint's features are in no order"
    root = above.new_full((1,), -1)  # it looks at no column
    column = torch.cat([root, above % model.columns])  # (R + 1,) by row
    parent = torch.cat([root, above // model.columns])
    for number, template in enumerate(model.templates):
        row = pairs[place == number] // model.outcomes
        for expected in (*reversed(template), -1):
            if len(other := column[row][column[row] != expected]):
                return (
                    f"template {number} of the checkpoint looks at column {int(other[0])}, this model's at {expected}"
                )
            row = parent[row]
    return None
