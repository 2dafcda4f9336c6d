"""Filter, smoother and embeddings against conditioning in a joint Gaussian; the direction of time."""

import torch
from lds_oracle import HMM, basis, gains, whitened
from torch import Tensor

from lmzoo.models.lds.estimation.asos import e_step
from lmzoo.models.lds.estimation.statistics import Counts, whiten
from lmzoo.models.lds.estimation.steady_state import steady_state
from lmzoo.models.lds.estimation.subspace import identify
from lmzoo.models.lds.estimation.system import LDS, power_of_symmetric
from lmzoo.models.lds.lds import scan, smooth
from lmzoo.numerics.svd import Operator


def filtered(lds: LDS, mu: Tensor, tokens: Tensor) -> Tensor:
    """(B, T, h) filtered means of (B, T) tokens, from zero."""
    steady = steady_state(lds)
    inputs = gains(lds, mu)[tokens]
    return scan(steady.H, inputs, inputs.new_zeros(len(tokens), len(lds.A)))


def test_means_in_the_middle_of_a_text_by_conditioning():
    """E[x_t | y_≤t] and E[x_t | y] of the joint Gaussian of 100 words and states, as one dense matrix."""
    hmm, T, t = HMM.draw(words=8), 100, 50
    lds, B = hmm.lds(), basis(hmm.m)
    C = B.mT @ lds.C
    power = [torch.linalg.matrix_power(lds.A, k) for k in range(T)]
    x = torch.cat([torch.cat([power[i - j] @ lds.M if i >= j else lds.M @ power[j - i].mT for j in range(T)], 1)
                   for i in range(T)])  # fmt: skip
    Cs = torch.block_diag(*[C] * T)
    y = Cs @ x @ Cs.mT + torch.block_diag(*[torch.eye(7).double() - C @ lds.M @ C.mT] * T)
    xy = (x @ Cs.mT)[3 * t : 3 * t + 3]
    tokens = hmm.sample(T)
    seen = (whitened(tokens, hmm.mu) @ B).flatten()
    n = 7 * (t + 1)
    f = filtered(lds, hmm.mu, tokens[None])
    s = smooth(steady_state(lds).J, lds.A, f)
    torch.testing.assert_close(f[0, t], xy[:, :n] @ torch.linalg.solve(y[:n, :n], seen[:n]), atol=1e-8, rtol=0)
    torch.testing.assert_close(s[0, t], xy @ torch.linalg.solve(y, seen), atol=1e-8, rtol=0)


def test_padding_does_not_reach_a_sentence():
    hmm = HMM.draw()
    lds, tokens = hmm.lds(), hmm.sample(30).view(3, 10)
    mask = torch.arange(10) < torch.tensor([10, 4, 1])[:, None]
    f, J = filtered(lds, hmm.mu, tokens), steady_state(lds).J
    together = smooth(J, lds.A, f, mask)
    for row, length in enumerate([10, 4, 1]):
        alone = smooth(J, lds.A, f[row : row + 1, :length])
        torch.testing.assert_close(together[row : row + 1, :length], alone, atol=1e-14, rtol=0)


def test_whitened_means_are_spherical_over_the_text():
    hmm = HMM.draw()
    lds, tokens = hmm.lds(), hmm.sample(100_000)
    mu, psi = whiten(Counts.of(tokens, 20, 7), 0.0)
    steady = steady_state(lds)
    s = smooth(steady.J, lds.A, filtered(lds, mu, tokens.view(100, 1000)))
    spherical = power_of_symmetric(e_step(psi, lds, steady, 19).smoothed, -0.5)
    whitened = (s @ spherical).flatten(0, 1)
    torch.testing.assert_close(whitened.mT @ whitened / len(tokens), torch.eye(3).double(), atol=0.01, rtol=0)


def perplexity(psi: list[Operator], mu: Tensor, text: Tensor) -> float:
    """Of the linear predictor p̂ = μ + diag(m) CAf, cut at 0, normalised, and mixed with a tenth of μ."""
    start = torch.randn(80, 13, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    lds = identify(psi, start, 3, 4)
    rows = text.view(50, -1)
    f = filtered(lds, mu, rows)[:, :-1]
    linear = (mu + mu.sqrt() * (f @ (lds.C @ lds.A).mT)).clamp(min=0)
    p = 0.9 * linear / linear.sum(2, keepdim=True) + 0.1 * mu
    return float((-p.gather(2, rows[:, 1:, None]).log().mean()).exp())


def test_time_runs_forward():
    """The transposed statistics are those of the text read backward, and look as plausible."""
    hmm = HMM.draw(stay=0.05, turn=0.9)
    text = hmm.sample(100_000)
    mu, psi = whiten(Counts.of(text, 20, 7), 0.0)
    forward = perplexity(list(psi), mu, text)
    backward = perplexity([Psi.mT for Psi in psi], mu, text)
    unigram = float((-mu[text].log().mean()).exp())
    assert forward < 0.85 * unigram < unigram < backward
