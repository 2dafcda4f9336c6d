"""The words now and the words next of a system's singular vectors."""

import pytest
import torch
from lds_oracle import HMM

from lmzoo.models.lds.estimation.steady_state import steady_state
from lmzoo.models.lds.estimation.system import power_of_symmetric
from lmzoo.models.lds.lds import singular_words


def test_words_now_are_along_v_and_words_next_along_u():
    """A is built from its singular vectors, and two words point along each end of v and of u."""
    random = torch.Generator().manual_seed(0)
    axes = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64, generator=random))[0].mT
    u, v, other_u, other_v = axes
    root = torch.randn(4, 4, dtype=torch.float64, generator=random)
    R = root @ root.mT + torch.eye(4)
    A = torch.linalg.inv(R) @ (0.9 * torch.outer(u, v) + 0.4 * torch.outer(other_u, other_v)) @ R
    rows = torch.stack([v, 2 * v, -v, -2 * v, u, 2 * u, -u, -2 * u, 9 * (v + other_v), 9 * (u + other_u)])
    ends = singular_words(A, rows @ R, R, 1, 2)
    assert [sigma for sigma, _, _ in ends] == pytest.approx([0.9, 0.9])
    found = {(frozenset(now.tolist()), frozenset(following.tolist())) for _, now, following in ends}
    assert found == {(frozenset({0, 1}), frozenset({4, 5})), (frozenset({2, 3}), frozenset({6, 7}))}


def test_the_words_next_follow_the_words_now_in_the_text():
    """In a chain that turns, a word next comes after a word now more often than before it."""
    hmm = HMM.draw(stay=0.05, turn=0.9)
    lds, lag1 = hmm.lds(), hmm.psi(1)[0]  # the row is the later word
    R = power_of_symmetric(lds.M - steady_state(lds).smoothed, -0.5)
    ends = singular_words(lds.A, lds.C, R, 3, 4)
    assert len(ends) == 6
    for _, now, following in ends:
        after, before = lag1[following][:, now].sum(), lag1[now][:, following].sum()
        assert after > 0
        assert after > before


def test_singular_words_of_two_states_that_alternate():
    hmm = HMM(
        torch.tensor([[0.1, 0.9], [0.8, 0.2]]).double(), torch.tensor([[0.5, 0.4, 0.1, 0], [0, 0, 0.3, 0.7]]).double()
    )
    lds = hmm.lds()
    (sigma, now, following), (_, now_too, following_too) = singular_words(lds.A, lds.C, torch.eye(1).double(), 1, 2)
    assert sigma == pytest.approx(0.7)  # the chain's eigenvalue
    assert {frozenset(now.tolist()), frozenset(following.tolist())} == {frozenset({0, 1}), frozenset({2, 3})}
    assert (now.tolist(), following.tolist()) == (following_too.tolist(), now_too.tolist())


def test_singular_words_do_not_depend_on_coordinates():
    lds = HMM.draw().lds()
    covariance = lds.M - steady_state(lds).smoothed  # of smoothed means
    T = torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    inverse = torch.linalg.inv(T)
    one = singular_words(lds.A, lds.C, power_of_symmetric(covariance, -0.5), 3, 4)
    other = singular_words(T @ lds.A @ inverse, lds.C @ inverse, power_of_symmetric(T @ covariance @ T.mT, -0.5), 3, 4)
    seen = {(round(sigma, 8), *now.tolist(), *following.tolist()) for sigma, now, following in one}
    assert {(round(sigma, 8), *now.tolist(), *following.tolist()) for sigma, now, following in other} == seen
    assert len(seen) == 6
