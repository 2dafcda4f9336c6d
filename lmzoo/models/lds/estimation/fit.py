"""From a text to its linear dynamical system: count, identify, iterate EM."""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.core.iterations import StateDict
from lmzoo.core.iterations import iterations as kept
from lmzoo.models.lds.estimation.asos import Expectations, e_step, m_step, of_words
from lmzoo.models.lds.estimation.statistics import Counts, CrossCovariance, project, whiten, whiten_vectors, with_mean
from lmzoo.models.lds.estimation.steady_state import SteadyState, steady_state
from lmzoo.models.lds.estimation.subspace import OVERSAMPLING, identify
from lmzoo.models.lds.estimation.system import LDS

log = logging.getLogger(__name__)


class Fit(NamedTuple):
    """A system, its steady state, what it expects of the states in the text, and the frequencies of the words."""

    lds: LDS
    steady: SteadyState
    expectations: Expectations
    mu: Tensor
    """(V,) smoothed frequencies μ."""
    Y: Tensor | None = None
    """(V, d) observations of words that have vectors; None for one-hot words."""

    def gains(self) -> Tensor:
        """(V, h) rows K y_w, y_w the centred and whitened observation of word w: what it adds to the filtered mean."""
        gains = self.lds.C @ self.steady.W
        if self.Y is None:  # because Km = 0, column w of K divided by μ_w^½
            return gains / self.mu.sqrt()[:, None]
        return self.Y @ gains

    def words(self) -> Tensor:
        """(V, h) the rows of C of one-hot words, or the rows Cᵀ y_w of vectors: the states that go with each word."""
        return self.lds.C if self.Y is None else self.Y @ self.lds.C


def fit(
    counts: Counts,
    hidden: int,
    blocks: int,
    lags: int,
    pseudocount: float,
    iterations: int,
    vectors: tuple[Sequence[int], Tensor] | None = None,
) -> Fit:
    """The system of one-hot words, or of their vectors, after ``iterations`` iterations of EM; see `em`.

    The log-density of the text is logged before the first iteration and after the last.

    Args:
        counts: for at least max(2 ``blocks`` - 1, ``lags``) lags.
        pseudocount: κ of `whiten`.
        vectors: words, and (n, d) their vectors; None for one-hot words.

    Raises: UserError as `identify` does.
    """
    seen = "one-hot words" if vectors is None else "word vectors"
    log.info("the Gaussian log-density of %s is not a log-probability, so it does not predict perplexity", seen)
    mu, psi = whiten(counts, pseudocount)
    if vectors is None:
        Y, observed, dimensions = None, psi, len(mu) - 1
    else:
        Y = whiten_vectors(with_mean(*vectors, mu), mu)
        observed, dimensions = project(psi, Y, mu), Y.shape[1]
    steps, fits = em(observed, dimensions, hidden, blocks, lags), deque[Fit](maxlen=1)

    def step() -> None:
        fits.append(Fit(*next(steps), mu, Y))

    def start() -> None:
        step()
        log.info("EM begins at a %s", *notes())

    def load_state_dict(saved: StateDict) -> None:
        nonlocal steps
        begun = LDS(**{name: part.to(mu.device) for name, part in saved.items()})
        steps = em(observed, dimensions, hidden, blocks, lags, begun)
        step()

    def notes() -> list[str]:
        log_density = fits[0].expectations.log_density
        log_density = of_words(log_density, mu) if Y is None else log_density
        return [f"Gaussian log-density of {log_density:.4f} nats per token"]

    for _ in kept(iterations, "EM", lambda: fits[0].lds._asdict(), load_state_dict, start=start, notes=notes):
        step()
    log.info("EM ends at a %s", *notes())
    return fits[0]


def em(
    psi: Sequence[CrossCovariance] | Sequence[Tensor],
    dimensions: int,
    hidden: int,
    blocks: int,
    lags: int,
    begun: LDS | None = None,
) -> Iterator[tuple[LDS, SteadyState, Expectations]]:
    """First the system of subspace identification, and then the system after every iteration of EM, without end.

    Args:
        psi: Ψ_1 … of whitened observations, which are one-hot words or vectors.
        dimensions: as in `e_step`.
        hidden: h, at most ``dimensions``.
        blocks: r of subspace identification, at least 2. It sees Ψ_1 … Ψ_{2r-1}; see `Hankel`.
        lags: L; EM sees Ψ_1 … Ψ_L.
        begun: the system to go on from, in place of subspace identification.

    Raises: UserError as `identify` does.
    """
    if (lds := begun) is None:
        device = psi[0].device
        generator = torch.Generator(device).manual_seed(0)  # the decomposition hardly depends on its start
        shape = (blocks * len(psi[0]), hidden + OVERSAMPLING)
        start = torch.randn(shape, dtype=torch.float64, device=device, generator=generator)
        lds = identify(psi[: 2 * blocks - 1], start, hidden, blocks)
    while True:
        steady = steady_state(lds)
        expectations = e_step(psi[:lags], lds, steady, dimensions)
        yield lds, steady, expectations
        lds = m_step(expectations)
