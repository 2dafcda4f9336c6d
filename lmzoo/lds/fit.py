"""From a text to its linear dynamical system: count, identify, iterate EM."""

import logging
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
    """Subspace identification with r = ``blocks``, then ``iterations`` of ASOS EM with Ψ_1 … Ψ_L, L = ``lags``.

    The log-density of the text is logged before every iteration and after the last.

    Args:
        counts: for at least max(2r - 1, L) lags.
        hidden: h, below V.

    Raises: ValueError as `whiten` and `identify` do.
    """
    mu, psi = whiten(counts, pseudocount)
    start = torch.randn(blocks * len(mu), hidden + OVERSAMPLING, dtype=mu.dtype, device=mu.device)
    lds = identify(psi[: 2 * blocks - 1], start, hidden, blocks)
    log.info("the Gaussian log-density of one-hot words is no log-probability: nothing about perplexity follows")
    with trange(iterations, unit="iteration", desc="EM", disable=None, leave=False) as bar:
        for iteration in bar:
            expectations = e_step(psi[:lags], lds, steady_state(lds))
            _report(iteration, of_words(expectations.log_density, mu))
            lds = m_step(expectations)
    steady = steady_state(lds)
    expectations = e_step(psi[:lags], lds, steady)
    _report(iterations, of_words(expectations.log_density, mu))
    return Fit(lds, steady, expectations, mu)


def _report(iteration: int, log_density: float) -> None:
    log.info("EM iteration %d: Gaussian log-density %.4f nats per token", iteration, log_density)
