"""Counts of pairs and their covariances against sums over the text."""

import pytest
import torch
from lds_oracle import HMM

from lmzoo.models.lds.estimation.statistics import Counts, whiten

V, LAGS = 6, 4


def dense(psi) -> torch.Tensor:
    return psi @ torch.eye(len(psi.left), dtype=torch.float64)


def test_counts_by_hand():
    counts = Counts.of(torch.tensor([0, 1, 0, 1, 2]), 3, 2)
    assert counts.words.tolist() == [2, 2, 1]
    codes, numbers = counts.pairs[0]
    assert dict(zip(codes.tolist(), numbers.tolist(), strict=True)) == {1 * 3 + 0: 2, 0 * 3 + 1: 1, 7: 1, 0 * 3 + 2: 1}
    assert all(int(number.sum()) == 5 for _, number in counts.pairs)


@pytest.mark.parametrize("pseudocount", [0.0, 3.0])
def test_covariances_are_the_sums_over_the_circle(pseudocount: float):
    tokens = torch.cat([torch.arange(V), torch.randint(V, (300,), generator=torch.Generator().manual_seed(0))])
    mu, psi = whiten(Counts.of(tokens, V, LAGS), pseudocount)
    share = pseudocount * V / (len(tokens) + pseudocount * V)
    onehot = torch.nn.functional.one_hot(tokens, V).double()
    torch.testing.assert_close(mu, (1 - share) * onehot.mean(0) + share / V)
    for k, Psi in enumerate(psi, 1):
        joint = (1 - share) * onehot.roll(-k, 0).mT @ onehot / len(tokens) + share / V**2
        expected = (joint - torch.outer(mu, mu)) / torch.outer(mu, mu).sqrt()
        torch.testing.assert_close(dense(Psi), expected, atol=1e-14, rtol=0)
        torch.testing.assert_close(dense(Psi.mT), expected.mT, atol=1e-14, rtol=0)


@pytest.mark.parametrize("pseudocount", [0.0, 20.0])
def test_covariances_leave_the_mean_out(pseudocount: float):
    tokens = HMM.draw(words=40).sample(50_000)
    mu, psi = whiten(Counts.of(tokens, 40, 7), pseudocount)
    m = mu.sqrt()[:, None]
    assert abs(float(m.norm()) - 1) < 1e-12
    for Psi in psi:
        assert float((Psi @ m).abs().max()) < 1e-12
        assert float((Psi.mT @ m).abs().max()) < 1e-12
