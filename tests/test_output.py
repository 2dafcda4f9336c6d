"""The output layer against log-softmax over all words, and its gradient against autograd's."""

import pytest
import torch
from torch.nn import functional as F

from lmzoo.models import output
from lmzoo.models.output import token_logprobs

N, D, V = 23, 4, 11


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(output, "CHUNK_ELEMENTS", 5 * V)


def draw(dtype: torch.dtype = torch.float64) -> tuple[list[torch.Tensor], torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    shapes = ((N, D), (V, D), (V,))
    inputs = [torch.randn(shape, generator=random, dtype=dtype).requires_grad_() for shape in shapes]
    return inputs, torch.randint(V, (N,), generator=random)


def dense(inputs: list[torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
    return -F.cross_entropy(F.linear(*inputs).to(torch.float64), tokens, reduction="none")


WEIGHTS = {
    "mean": torch.full((N,), 1 / N).double(),
    "mask": (torch.arange(N) % 3 > 0).double(),
    "any": torch.linspace(-1, 2, N).double(),
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_scores_and_gradients_are_the_dense_ones(weights: torch.Tensor):
    inputs, tokens = draw()
    scores, expected = token_logprobs(*inputs, tokens), dense(inputs, tokens)
    torch.testing.assert_close(scores, expected, rtol=1e-12, atol=1e-12)
    gradients, wanted = (torch.autograd.grad((weights * s).sum(), inputs) for s in (scores, expected))
    for ours, theirs in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_without_gradients_the_scores_are_the_same():
    inputs, tokens = draw()
    with torch.no_grad():
        torch.testing.assert_close(token_logprobs(*inputs, tokens), dense(inputs, tokens), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
def test_under_autocast_products_are_rounded_and_sums_are_not(weights: torch.Tensor):
    inputs, tokens = draw(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = token_logprobs(*inputs, tokens)
    assert scores.dtype == torch.float32
    expected = dense(inputs, tokens)
    torch.testing.assert_close(scores.double(), expected, rtol=0.03, atol=0.05)
    gradients, wanted = (torch.autograd.grad((weights * s).sum(), inputs) for s in (scores, expected))
    for ours, theirs in zip(gradients, wanted, strict=True):
        assert ours.dtype == torch.float32
        assert (ours - theirs).norm() < 0.03 * theirs.norm()


def test_no_more_logits_than_a_chunk(monkeypatch: pytest.MonkeyPatch):
    seen = []
    addmm = torch.addmm
    monkeypatch.setattr(torch, "addmm", lambda *matrices: seen.append(addmm(*matrices)) or seen[-1])
    inputs, tokens = draw()
    token_logprobs(*inputs, tokens).sum().backward()
    assert sum(len(logits) for logits in seen) == N
    assert max(logits.numel() for logits in seen) <= output.CHUNK_ELEMENTS
