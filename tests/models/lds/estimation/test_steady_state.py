"""The steady state against scipy, dense matrices and the filter that starts from nothing."""

import pytest
import torch
from lds_oracle import HMM, basis
from scipy.linalg import solve_discrete_are
from torch import Tensor

from lmzoo.models.lds.estimation.steady_state import steady_state
from lmzoo.models.lds.estimation.system import LDS


def reduced(hmm: HMM, lds: LDS) -> tuple[Tensor, Tensor]:
    """C and D in a basis of m^⊥."""
    B = basis(hmm.m)
    C = B.mT @ lds.C
    return C, torch.eye(len(C)).double() - C @ lds.M @ C.mT


@pytest.mark.parametrize("seed", range(3))
def test_riccati_against_scipy(seed: int):
    hmm = HMM.draw(words=40, seed=seed)
    lds = hmm.lds()
    C, D = reduced(hmm, lds)
    expected = solve_discrete_are(lds.A.mT.numpy(), C.mT.numpy(), torch.eye(3).double().numpy(), D.numpy())
    torch.testing.assert_close(steady_state(lds).prior, torch.from_numpy(expected), atol=1e-10, rtol=0)


@pytest.mark.parametrize("seed", range(3))
def test_low_rank_inverses_against_dense_ones(seed: int):
    hmm = HMM.draw(words=40, seed=seed)
    lds = hmm.lds()
    A, C, M = lds
    steady = steady_state(lds)
    m = hmm.m[:, None]
    S = torch.eye(40).double() - m @ m.mT + C @ (steady.prior - M) @ C.mT
    pinv = torch.linalg.pinv(S, rtol=1e-10)
    torch.testing.assert_close(torch.eye(40).double() - m @ m.mT - C @ steady.G @ C.mT, pinv, atol=1e-12, rtol=0)
    assert abs(float(steady.logdet - torch.linalg.eigvalsh(S)[1:].log().sum())) < 1e-12
    K = steady.prior @ C.mT @ pinv
    torch.testing.assert_close(steady.W.mT @ C.mT, K, atol=1e-12, rtol=0)
    torch.testing.assert_close(steady.posterior, steady.prior - K @ C @ steady.prior, atol=1e-12, rtol=0)
    torch.testing.assert_close(steady.H, A - K @ C @ A, atol=1e-12, rtol=0)
    assert float((K @ m).abs().max()) < 1e-12


def test_covariances_of_a_long_text_by_conditioning():
    """Prior, posterior, smoothed and lagged covariance in the middle of 60 words, from their joint Gaussian."""
    hmm = HMM.draw(words=8)
    lds = hmm.lds()
    C, D = reduced(hmm, lds)
    steady, T, t, h = steady_state(lds), 60, 30, 3
    Pi = lds.M
    power = [torch.linalg.matrix_power(lds.A, k) for k in range(T)]
    x = torch.cat([torch.cat([power[i - j] @ Pi if i >= j else Pi @ power[j - i].mT for j in range(T)], 1)
                   for i in range(T)])  # fmt: skip
    Cs = torch.block_diag(*[C] * T)
    y = Cs @ x @ Cs.mT + torch.block_diag(*[D] * T)

    def conditional(words: int) -> Tensor:
        """Covariance of x_t and x_{t+1} given the first so many words."""
        n = words * len(C)
        xy = (x @ Cs.mT)[t * h : (t + 2) * h, :n]
        return x[t * h : (t + 2) * h, t * h : (t + 2) * h] - xy @ torch.linalg.solve(y[:n, :n], xy.mT)

    torch.testing.assert_close(conditional(t)[:h, :h], steady.prior, atol=1e-9, rtol=0)
    torch.testing.assert_close(conditional(t + 1)[:h, :h], steady.posterior, atol=1e-9, rtol=0)
    torch.testing.assert_close(conditional(T)[:h, :h], steady.smoothed, atol=1e-9, rtol=0)
    torch.testing.assert_close(conditional(T)[h:, :h], steady.smoothed @ steady.J.mT, atol=1e-9, rtol=0)


def test_how_wrong_the_steady_state_is_on_the_first_words():
    hmm = HMM.draw()
    lds = hmm.lds()
    C, D = reduced(hmm, lds)
    prior, steady = lds.M, steady_state(lds)
    errors = []
    for _ in range(6):
        errors.append(float((prior - steady.prior).norm() / steady.prior.norm()))
        posterior = torch.linalg.inv(torch.linalg.inv(prior) + C.mT @ torch.linalg.solve(D, C))
        prior = lds.A @ posterior @ lds.A.mT + torch.eye(3).double()
    assert errors[0] <= 0.67
    assert errors[2] <= 0.03
    assert errors[5] <= 0.0005
    assert errors == sorted(errors, reverse=True)
