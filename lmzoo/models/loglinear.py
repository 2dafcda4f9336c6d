"""The log-linear, or maximum-entropy, n-gram model."""

import logging
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lmzoo.errors import UserError
from lmzoo.loglinear import backoff_table, log_likelihood, ngram_levels
from lmzoo.models.ngram import BackoffModel
from lmzoo.ngram_counts import count_ngrams
from lmzoo.owlqn import minimise
from lmzoo.registry import NonNegative, Size, models

if TYPE_CHECKING:
    from lmzoo.corpus import Corpus

log = logging.getLogger("lmzoo")


@models.register("loglinear")
class LogLinear(BackoffModel):
    """p(w | h) ∝ exp Σ_n λ(last n - 1 words of h, w) over the n-grams of the training text, exactly normalised.

    Rosenfeld, *A maximum entropy approach to adaptive statistical language modelling*, 1996. The weights
    maximise log-likelihood - Σ_n (l2_n/2 Σ λ² + l1_n Σ |λ|), in nats of the whole text: a Gaussian prior of
    variance 1/l2 (Chen & Rosenfeld, 2000) and a Laplacian one; Chen (2009) takes l1 = 1/2, l2 = 1/6.

    Given its weights it is a backoff model, and kept as one, so that a token costs a few look-ups.

    Args:
        order: N; a word is predicted from the N - 1 before it.
        l2: strength of each order, the last for all higher ones.
        l1: the same; weights that it holds at zero are left out of the sums, and their number is logged.
        tolerance: training ends when an iteration lowers the objective by less than this share of it.
        max_iterations: and after so many at the latest.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        order: Size,
        l2: list[NonNegative],
        l1: list[NonNegative],
        tolerance: NonNegative,
        max_iterations: Size,
    ):
        super().__init__(types=vocabulary_size)
        self.vocabulary_size = vocabulary_size
        self.order = order
        for name, strengths in (("l2", l2), ("l1", l1)):
            if not strengths:
                raise UserError(f"model.{name}=[]: must be a strength for each order, the last for all higher ones")
        self.l2, self.l1 = ([*s, *[s[-1]] * order][:order] for s in (l2, l1))
        self.tolerance = tolerance
        self.max_iterations = max_iterations

    def estimate(self, corpus: "Corpus") -> None:
        tokens = corpus.train.to(self.device)
        orders = count_ngrams(tokens, self.vocabulary_size, self.order)
        levels = ngram_levels(orders)
        sizes = [len(level.counts) for level in levels]
        counts = torch.cat([level.counts for level in levels])
        l2, l1 = (
            torch.cat([counts.new_full((k,), v) for k, v in zip(sizes, s, strict=True)]) for s in (self.l2, self.l1)
        )

        def objective(weights: Tensor) -> tuple[float, Tensor]:
            value, gradient = log_likelihood(levels, weights.split(sizes))
            return float(l2 @ weights**2) / 2 - value, l2 * weights - torch.cat(gradient)

        # At the optimum features are expected about as often as observed, and rare ones vary as Poisson counts do.
        curvature = (counts + l2).clamp(min=0.1)
        found = minimise(
            objective,
            torch.zeros_like(counts),
            l1=l1,
            curvature=curvature,
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
        )
        weights = found.x.split(sizes)
        used = ", ".join(f"{int(w.count_nonzero()):,} of {k:,}" for w, k in zip(weights, sizes, strict=True))
        log.info(
            "objective %.6f nats a token after %d iterations%s; weights not zero: %s",
            found.value / len(tokens), found.iterations, "" if found.converged else ", not converged", used,
        )  # fmt: skip
        self.table = backoff_table(orders, weights, self.vocabulary_size)
