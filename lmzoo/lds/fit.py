"""From a text to its linear dynamical system: count, identify, iterate EM."""

import logging
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm import trange

from lmzoo.lds.asos import Expectations, e_step, m_step, of_words
from lmzoo.lds.statistics import Counts, whiten
from lmzoo.lds.steady_state import SteadyState, steady_state
from lmzoo.lds.subspace import OVERSAMPLING, identify
from lmzoo.lds.system import LDS

log = logging.getLogger(__name__)


class Fit(NamedTuple):
    """A system, its steady state, what it expects of the states in the text, and the words' frequencies."""

    lds: LDS
    steady: SteadyState
    expectations: Expectations
    mu: Tensor
    """(V,)."""


def fit(counts: Counts, hidden: int, blocks: int, lags: int, pseudocount: float, iterations: int) -> Fit:
    """The system after ``iterations`` of EM; see `fits`. The log-density of the text is logged before each and after.

    Raises: ValueError as `fits` does.
    """
    log.info("the Gaussian log-density of one-hot words is no log-probability: nothing about perplexity follows")
    steps = fits(counts, hidden, blocks, lags, pseudocount)
    fitted = next(steps)
    _report(0, fitted)
    for iteration in trange(iterations, desc="EM", unit="iteration", disable=None, leave=False):
        fitted = next(steps)
        _report(iteration + 1, fitted)
    return fitted


def _report(iteration: int, fitted: Fit) -> None:
    log_density = of_words(fitted.expectations.log_density, fitted.mu)
    log.info("EM iteration %d: Gaussian log-density %.4f nats per token", iteration, log_density)


def fits(counts: Counts, hidden: int, blocks: int, lags: int, pseudocount: float) -> Iterator[Fit]:
    """Subspace identification with r = ``blocks``, then one iteration after another of ASOS EM with Ψ_1 … Ψ_lags.

    Args:
        counts: for at least max(2r - 1, ``lags``) lags.
        hidden: h, below V.

    Raises: ValueError as `whiten` and `identify` do.
    """
    mu, psi = whiten(counts, pseudocount)
    start = torch.randn(blocks * len(mu), hidden + OVERSAMPLING, dtype=mu.dtype, device=mu.device)
    lds = identify(psi[: 2 * blocks - 1], start, hidden, blocks)
    while True:
        steady = steady_state(lds)
        expectations = e_step(psi[:lags], lds, steady)
        yield Fit(lds, steady, expectations, mu)
        lds = m_step(expectations)
