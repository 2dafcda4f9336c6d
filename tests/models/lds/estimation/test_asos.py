"""ASOS against the smoother run over the text itself, and EM's promises."""

import math
from itertools import pairwise

import pytest
import torch
from lds_oracle import HMM, gains, whitened
from torch import Tensor

from lmzoo.models.lds.estimation.asos import Expectations, e_step, m_step, of_words
from lmzoo.models.lds.estimation.fit import fit
from lmzoo.models.lds.estimation.statistics import Counts, whiten
from lmzoo.models.lds.estimation.steady_state import steady_state
from lmzoo.models.lds.estimation.system import LDS, signal
from lmzoo.models.lds.lds import scan, smooth

TOKENS = 400_000


def system(lds: LDS, mu: Tensor) -> LDS:
    """Moved into the m^⊥ of a text's frequencies, and D made positive there."""
    m = mu.sqrt()
    C = lds.C - torch.outer(m, m @ lds.C)
    return LDS(lds.A, C, lds.M * min(1.0, 0.9 / signal(C, lds.M)))


def states(lds: LDS, mu: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """(N, h) filtered and smoothed means at every token of the text as a circle."""
    steady, edge, row = steady_state(lds), 60, 100
    circle = torch.cat([tokens[-edge:], tokens, tokens[:edge]]).unfold(0, row + 2 * edge, row)  # (N / 100, 220)
    inputs = gains(lds, mu)[circle]
    filtered = scan(steady.H, inputs, inputs.new_zeros(len(inputs), len(lds.A)))
    smoothed = smooth(steady.J, lds.A, filtered)
    return tuple(part[:, edge:-edge].flatten(0, 1) for part in (filtered, smoothed))


@pytest.mark.parametrize(
    ("stay", "seed", "lags", "tolerance"),
    [(0.3, 0, 1, 1e-3), (0.6, 0, 7, 3e-5), (0.6, 0, 15, 5e-6), (0.6, 7, 15, 5e-6)],
)
def test_asos_against_the_explicit_smoother(stay: float, seed: int, lags: int, tolerance: float):
    """The system that made the text (seed 0), with the shorter a memory the fewer the lags, and one that did not."""
    text = HMM.draw(stay=stay).sample(TOKENS)
    mu, psi = whiten(Counts.of(text, 20, lags), 0.0)
    lds = system(HMM.draw(stay=stay, seed=seed).lds(), mu)
    steady = steady_state(lds)
    found = e_step(psi, lds, steady, 19)
    f, s = states(lds, mu, text)
    y, following = whitened(text, mu), s.roll(-1, 0)
    explicit = {
        "xx": s.mT @ s / TOKENS + steady.smoothed,
        "next": following.mT @ s / TOKENS + steady.smoothed @ steady.J.mT,
        "yx": y.mT @ s / TOKENS,
        "filtered": f.mT @ f / TOKENS,
        "smoothed": s.mT @ s / TOKENS,
    }
    for name, expected in explicit.items():
        torch.testing.assert_close(getattr(found, name), expected, atol=tolerance, rtol=0, msg=f"{name}: {{}}".format)
    innovation = y.roll(-1, 0) - f @ (lds.C @ lds.A).mT
    low = innovation @ lds.C
    squares = ((innovation**2).sum() - (low @ steady.G * low).sum()) / TOKENS
    density = -0.5 * float(19 * math.log(2 * math.pi) + steady.logdet + squares)
    assert abs(density - found.log_density) < tolerance


def test_the_truth_is_a_fixed_point_on_population_moments():
    hmm = HMM.draw()
    lds = hmm.lds()
    again = m_step(e_step(hmm.psi(7), lds, steady_state(lds), 19))
    for name, before, after in zip(lds._fields, lds, again, strict=True):
        torch.testing.assert_close(after, before, atol=1e-12, rtol=0, msg=f"{name}: {{}}".format)


def test_em_raises_the_density_and_finds_the_truth():
    hmm = HMM.draw()
    psi = hmm.psi(20)
    lds = system(HMM.draw(seed=7).lds(), hmm.mu)
    densities = []
    for _ in range(200):
        expectations = e_step(psi, lds, steady_state(lds), 19)
        densities.append(expectations.log_density)
        lds = m_step(expectations)
    truth = hmm.lds()
    best = e_step(psi, truth, steady_state(truth), 19).log_density
    assert all(later > earlier for earlier, later in pairwise(densities))
    assert densities[0] < best - 0.1
    assert best - 1e-4 < densities[-1] < best


def test_density_of_words_does_not_depend_on_the_whitening():
    """N(e_w - μ; 0, diag(μ) - μμᵀ) in a basis of 1^⊥, by hand."""
    mu = HMM.draw().mu
    B = torch.linalg.svd(torch.ones(1, 20, dtype=torch.float64))[2][1:].mT
    covariance = B.mT @ (torch.diag(mu) - torch.outer(mu, mu)) @ B
    direct = torch.distributions.MultivariateNormal(torch.zeros(19).double(), covariance)
    expected = float((direct.log_prob((torch.eye(20).double() - mu) @ B) * mu).sum())
    white = -0.5 * 19 * (math.log(2 * math.pi) + 1)  # y is white with 19 dimensions, so E|y|² = 19
    assert abs(of_words(white, mu) - expected) < 1e-10


def test_the_next_system_is_stable_and_leaves_noise():
    """From expectations whose A would double the state, and whose CMCᵀ would be 18 times too large."""
    axes = torch.linalg.qr(torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    xx = torch.diag(torch.tensor([1.0, 2.0]).double())
    lds = m_step(Expectations(xx=xx, next=2 * xx, yx=3 * axes @ xx, filtered=xx, smoothed=xx, log_density=0.0))
    torch.testing.assert_close(lds.A, 0.9999 * torch.eye(2).double())
    torch.testing.assert_close(lds.C, 3 * axes)
    assert torch.linalg.eigvalsh(lds.C @ lds.M @ lds.C.mT)[-1].item() == pytest.approx(1 - 1e-4)
    torch.testing.assert_close(lds.M, xx * (1 - 1e-4) / 18)


@pytest.mark.parametrize("seed", [0, 1])
def test_smoothed_means_of_a_text_that_is_too_small_have_a_covariance(seed: int):
    tokens = torch.randint(20, (60,), generator=torch.Generator().manual_seed(seed))
    smoothed = fit(Counts.of(tokens, 20, 3), 19, 2, 3, 1.0, 0).expectations.smoothed
    values = torch.linalg.eigvalsh(smoothed)
    assert values[0] > -1e-9 * values[-1]
