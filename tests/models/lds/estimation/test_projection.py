"""Words as vectors: covariances against sums over the text, EM against the exact one."""

import math

import numpy as np
import pytest
import torch
from lds_oracle import HMM, gains
from torch import Tensor

from lmzoo.models.lds.estimation.asos import e_step, m_step
from lmzoo.models.lds.estimation.fit import em
from lmzoo.models.lds.estimation.statistics import Counts, project, whiten, whiten_vectors, with_mean
from lmzoo.models.lds.estimation.steady_state import steady_state
from lmzoo.models.lds.estimation.subspace import identify
from lmzoo.models.lds.estimation.system import LDS, signal, sylvester

V, D, H, TOKENS = 20, 6, 3, 4000


@pytest.fixture(scope="module")
def text() -> Tensor:
    return HMM.draw().sample(TOKENS)


@pytest.fixture(scope="module")
def observed(text: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
    """Ψ_1 … Ψ_20, Y and μ of random word vectors that are far from white."""
    mu, psi = whiten(Counts.of(text, V, 20), 0.0)
    random = torch.Generator().manual_seed(3)
    vectors = torch.randn(V, D, generator=random) @ torch.randn(D, D, generator=random) + 5
    Y = whiten_vectors(vectors, mu)
    return project(psi, Y, mu), Y, mu


def test_covariances_are_the_sums_over_the_circle(text: Tensor, observed: tuple[list[Tensor], Tensor, Tensor]):
    psi, Y, _ = observed
    y = Y[text]
    torch.testing.assert_close(y.mean(0), torch.zeros(D).double(), atol=1e-12, rtol=0)
    torch.testing.assert_close(y.mT @ y / TOKENS, torch.eye(D).double(), atol=1e-12, rtol=0)
    for k, Psi in enumerate(psi, 1):
        torch.testing.assert_close(Psi, y.roll(-k, 0).mT @ y / TOKENS, atol=1e-12, rtol=0)


def exact_em(y: np.ndarray, lds: LDS) -> tuple[LDS, float]:
    """The M-step after the smoother of Rauch, Tung & Striebel has run over (N, d) vectors, and their log-likelihood."""
    A, C, M = (part.numpy() for part in lds)
    noise = np.eye(D) - C @ M @ C.T
    mean, P, total = np.zeros(H), M, 0.0
    means, covariances, ahead = [], [], []
    for observation in y:
        S = C @ P @ C.T + noise
        innovation = observation - C @ mean
        total -= (D * math.log(2 * math.pi) + np.linalg.slogdet(S)[1] + innovation @ np.linalg.solve(S, innovation)) / 2
        K = np.linalg.solve(S, C @ P).T
        mean, P = mean + K @ innovation, P - K @ C @ P
        means.append(mean)
        covariances.append(P)
        mean, P = A @ mean, A @ P @ A.T + np.eye(H)
        ahead.append(P)
    s, Ps = means[-1], covariances[-1]
    xx, lag, yx = Ps + np.outer(s, s), np.zeros((H, H)), np.outer(y[-1], s)
    for t in reversed(range(len(y) - 1)):
        J = np.linalg.solve(ahead[t], A @ covariances[t]).T
        following, Pn = s, Ps
        s = means[t] + J @ (following - A @ means[t])
        Ps = covariances[t] + J @ (Pn - ahead[t]) @ J.T
        xx += Ps + np.outer(s, s)
        lag += Pn @ J.T + np.outer(following, s)
        yx += np.outer(y[t], s)
    inverse = np.linalg.inv(xx)
    return LDS(*map(torch.from_numpy, (lag @ inverse, yx @ inverse, xx / len(y)))), total


def test_em_against_the_exact_one(text: Tensor, observed: tuple[list[Tensor], Tensor, Tensor]):
    """They differ in the edges of the text alone, of the order of 1 / 4000."""
    psi, Y, _ = observed
    random = torch.Generator().manual_seed(5)
    A = torch.diag(torch.tensor([0.6, 0.4, -0.3])) + 0.1 * torch.randn(H, H, generator=random)
    A, C = A.double(), 0.2 * torch.randn(D, H, dtype=torch.float64, generator=random)
    lds = LDS(A, C, sylvester(A, A, torch.eye(H).double()))  # Q is I
    assert signal(C, lds.M) < 0.9
    steady = steady_state(lds)
    expectations = e_step(psi, lds, steady, D)
    expected, total = exact_em(Y[text].numpy(), lds)
    for name, mine, theirs in zip(LDS._fields, m_step(expectations), expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-3, rtol=0, msg=f"{name}: {{}}".format)
    assert abs(expectations.log_density - total / TOKENS) < 1e-3


def test_gains_are_those_of_the_dense_filter(observed: tuple[list[Tensor], Tensor, Tensor]):
    """K = Σ₁Cᵀ (CΣ₁Cᵀ + D)⁻¹ after so many steps of the filter that its covariance Σ₁ does not change any more."""
    psi, Y, _ = observed
    lds = next(em(psi, D, H, 3, 20))[0]
    A, C, M = (part.numpy() for part in lds)
    noise, prior, K = np.eye(D) - C @ M @ C.T, M, np.zeros((H, D))
    for _ in range(1000):
        K = prior @ C.T @ np.linalg.inv(C @ prior @ C.T + noise)
        prior = A @ (prior - K @ C @ prior) @ A.T + np.eye(H)
    torch.testing.assert_close(gains(lds, torch.ones(len(Y)), Y), Y @ torch.from_numpy(K).mT, atol=1e-10, rtol=0)


def test_a_system_leaves_the_seed_alone(observed: tuple[list[Tensor], Tensor, Tensor], monkeypatch: pytest.MonkeyPatch):
    """What it starts from is compared, since LAPACK's last bits differ from call to call."""
    starts = []
    monkeypatch.setattr(
        "lmzoo.models.lds.estimation.fit.identify",
        lambda psi, start, *_: starts.append(start) or identify(psi, start, *_),
    )
    for seed in (0, 1):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        next(em(observed[0], D, H, 3, 20))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*starts)


def test_em_raises_the_density(observed: tuple[list[Tensor], Tensor, Tensor]):
    psi, _, _ = observed
    steps = em(psi, D, H, 3, 20)
    densities = [next(steps)[2].log_density for _ in range(30)]
    assert densities == sorted(densities)
    white = -0.5 * D * (math.log(2 * math.pi) + 1)  # of vectors that do not depend on those before
    assert white < densities[0] < densities[-1] - 1e-3


def test_all_directions_of_one_hot_words_are_one_hot_words_again(text: Tensor):
    """In a basis of 1^⊥ the projection loses nothing."""
    mu, psi = whiten(Counts.of(text, V, 7), 0.0)
    vectors = torch.linalg.svd(torch.ones(1, V, dtype=torch.float64))[2][1:].mT
    Y = whiten_vectors(vectors, mu)
    m = mu.sqrt()
    lds = LDS(*(part.double() for part in HMM.draw(seed=7).lds()))
    C = lds.C - torch.outer(m, m @ lds.C)
    whole = LDS(lds.A, C, lds.M * 0.3)
    projected = LDS(lds.A, (m[:, None] * Y).mT @ C, whole.M)
    one = e_step(psi, whole, steady_state(whole), V - 1)
    other = e_step(project(psi, Y, mu), projected, steady_state(projected), V - 1)
    for name in ("xx", "next", "filtered", "smoothed"):
        torch.testing.assert_close(getattr(other, name), getattr(one, name), msg=f"{name}: {{}}".format)
    assert abs(one.log_density - other.log_density) < 1e-10


def test_vectors_of_lower_rank_are_white_in_the_dimensions_that_they_have(
    observed: tuple[list[Tensor], Tensor, Tensor],
):
    mu = observed[2]
    Y = whiten_vectors(torch.arange(60.0).view(20, 3), mu)
    torch.testing.assert_close(Y.mT @ (mu[:, None] * Y), torch.eye(1).double())


def test_a_word_without_a_vector_is_observed_as_zero(observed: tuple[list[Tensor], Tensor, Tensor]):
    mu = observed[2]
    rows, given = [0, 2, 5, 7, 11], torch.randn(5, 2, generator=torch.Generator().manual_seed(4))
    Y = whiten_vectors(with_mean(rows, given, mu), mu)
    missing = [word for word in range(V) if word not in rows]
    torch.testing.assert_close(Y[missing], torch.zeros(V - 5, 2).double(), atol=1e-12, rtol=0)
    difference = given.double()[0] - given.double()[1]
    R = torch.linalg.lstsq(Y[rows] - Y[0], given.double() - given.double()[0]).solution
    torch.testing.assert_close((Y[0] - Y[2]) @ R, difference)
