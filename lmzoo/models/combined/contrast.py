"""Noise-contrastive estimation of a log-linear model, and its normaliser by importance sampling.

Gutmann & Hyvärinen, "Noise-contrastive estimation: a new estimation principle for unnormalized statistical models",
AISTATS 2010; Owen, *Monte Carlo theory, methods and examples*, 2013, chapter 9.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from lmzoo.numerics.owlqn import minimise
from lmzoo.numerics.sparse import SparseRows
from lmzoo.protocol.abilities import LogZ

TOLERANCE = 1e-5
"""The relative decrease at which `minimise` ends."""

ITERATIONS = 200
"""The most iterations of `minimise`."""


class Contrast:
    """Logistic regression of the (S, F) features of a text against those of noise, k sentences to one of the text:

        J(w, c) = −Σ_text log σ(w·φ − c − log k) − Σ_noise log σ(c + log k − w·φ) + l2/2 |w|²,

    of which the minimum estimates p(x) / p_noise(x) = exp(w·φ(x) − c): c is log Z (Gutmann & Hyvärinen, equation 8).
    """

    def __init__(self, text: SparseRows, noise: SparseRows):
        self.parts = [(part, part.mT, sign) for part, sign in ((text, 1.0), (noise, -1.0))]
        self.log_k = math.log(noise.shape[0] / text.shape[0])
        share = text.shape[0] * noise.shape[0] / (text.shape[0] + noise.shape[0]) ** 2  # σ (1 − σ) where w is 0
        squares = torch.zeros(text.shape[1])
        for part in (text, noise):
            assert part.values is not None
            squares.index_add_(0, part.columns, part.values**2)
        self.curvature = share * torch.cat([squares, torch.tensor([1.0 * text.shape[0] + noise.shape[0]])])

    def objective(self, x: Tensor, l2: float) -> tuple[float, Tensor]:
        """J and its gradient; x is (F + 1,), w and then c."""
        w, value, gradient = x[:-1], l2 / 2 * float(x[:-1].double().square().sum()), torch.zeros_like(x)
        gradient[:-1] = l2 * w
        for features, transposed, sign in self.parts:
            margin = sign * (features @ w - x[-1] - self.log_k)  # (S,)
            value += float(F.softplus(-margin).double().sum())
            slope = -sign * (-margin).sigmoid()
            gradient[:-1] += transposed @ slope
            gradient[-1] -= slope.sum()
        return value, gradient

    def minimum(self, x: Tensor, l2: float) -> Tensor:
        """(F + 1,) w and c, searched from x."""
        curvature = self.curvature + l2
        optimum = minimise(
            lambda x: self.objective(x, l2), x, l1=torch.zeros_like(x), curvature=curvature,
            tolerance=TOLERANCE, max_iterations=ITERATIONS,
        )  # fmt: skip
        return optimum.point.x


def log_normaliser(log_ratios: Tensor) -> LogZ:
    """log Z = log E exp(w·φ) from the (M,) w·φ of independent samples, its error by the delta method; Owen, 9.13."""
    u = log_ratios.double()
    samples = len(u)
    log_z = float(u.logsumexp(0)) - math.log(samples)
    share = (u - log_z).exp()  # of mean 1
    effective = samples / float(share.square().mean())
    return LogZ(log_z, float(share.std()) / math.sqrt(samples), effective, samples)
