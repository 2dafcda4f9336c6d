"""Subspace identification on moments whose system is known."""

import pytest
import torch
from lds_oracle import HMM
from torch import Tensor

from lmzoo.models.lds.estimation.statistics import Counts, whiten
from lmzoo.models.lds.estimation.subspace import Hankel, identify
from lmzoo.models.lds.estimation.system import clip_spectrum, power_of_symmetric, signal, sylvester

BLOCKS = 4


def start(blocks: int, words: int, columns: int) -> Tensor:
    return torch.randn(blocks * words, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def spectrum(A: Tensor) -> Tensor:
    values = torch.linalg.eigvals(A)
    order = sorted(range(len(values)), key=lambda i: (round(values[i].real.item(), 4), values[i].imag.item()))
    return values[order]


def test_hankel_is_the_blocks_side_by_side():
    psi = HMM.draw().psi(5)
    dense = torch.cat([torch.cat([psi[3 - j + i - 1] for j in range(1, 4)], 1) for i in range(1, 4)])
    X = start(3, 20, 2)
    torch.testing.assert_close(Hankel(psi) @ X, dense @ X)
    torch.testing.assert_close(Hankel(psi).mT @ X, dense.mT @ X)


@pytest.mark.parametrize("seed", range(3))
def test_population_moments_of_an_hmm_are_recovered(seed: int):
    hmm = HMM.draw(words=30, seed=seed)
    psi = hmm.psi(2 * BLOCKS - 1)
    lds = identify(psi, start(BLOCKS, 30, 13), 3, BLOCKS)
    truth = sorted(torch.linalg.eigvals(hmm.T), key=abs)[:-1]
    torch.testing.assert_close(spectrum(lds.A), spectrum(torch.diag(torch.stack(truth))), atol=1e-8, rtol=0)
    for k, Psi in enumerate(psi, 1):
        found = lds.C @ torch.linalg.matrix_power(lds.A, k) @ lds.M @ lds.C.mT
        torch.testing.assert_close(found, Psi, atol=1e-10, rtol=0)
    torch.testing.assert_close(lds.M - lds.A @ lds.M @ lds.A.mT, torch.eye(3).double(), atol=1e-10, rtol=0)


def test_an_hmm_is_recovered_from_its_text():
    hmm = HMM.draw()
    _, psi = whiten(Counts.of(hmm.sample(400_000), 20, 2 * BLOCKS - 1), 0.0)
    lds = identify(psi, start(BLOCKS, 20, 13), 3, BLOCKS)
    torch.testing.assert_close(spectrum(lds.A), spectrum(hmm.lds().A), atol=0.01, rtol=0)


def test_moments_of_no_system_give_one_all_the_same():
    tokens = torch.randint(30, (2000,), generator=torch.Generator().manual_seed(0))
    mu, psi = whiten(Counts.of(tokens, 30, 7), 1.0)
    lds = identify(psi, start(BLOCKS, 30, 30), 20, BLOCKS)
    assert float(torch.linalg.eigvals(lds.A).abs().max()) < 0.98 + 1e-9
    assert signal(lds.C, lds.M) < 1
    assert float((lds.C.mT @ mu.sqrt()).abs().max()) < 1e-12


def test_sylvester_by_kronecker_products():
    random = torch.Generator().manual_seed(0)
    A, B, Q = (0.3 * torch.randn(4, 4, dtype=torch.float64, generator=random) for _ in range(3))
    flat = torch.linalg.solve(torch.eye(16).double() - torch.kron(A, B), Q.flatten())
    torch.testing.assert_close(sylvester(A, B, Q), flat.view(4, 4), atol=1e-13, rtol=0)


def test_clipping_moves_only_what_is_too_large():
    V = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    A = V @ torch.diag(torch.tensor([1.2, 0.5, -1.1], dtype=torch.float64)) @ torch.linalg.inv(V)
    expected = V @ torch.diag(torch.tensor([0.9, 0.5, -0.9], dtype=torch.float64)) @ torch.linalg.inv(V)
    torch.testing.assert_close(clip_spectrum(A, 0.9), expected, atol=1e-12, rtol=0)
    assert clip_spectrum(A, 1.3) is A


def test_powers_of_symmetric_matrices():
    X = torch.tensor([[2.0, 1.0], [1.0, 3.0]]).double()
    root = power_of_symmetric(X, -0.5)
    torch.testing.assert_close(root @ X @ root, torch.eye(2).double())
    floored = torch.linalg.eigvalsh(power_of_symmetric(torch.diag(torch.tensor([4.0, -1.0])).double(), 1.0, 0.25))
    torch.testing.assert_close(floored, torch.tensor([1.0, 4.0]).double())
