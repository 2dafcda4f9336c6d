"""GloVe: gradients against autograd of the plain formula, an epoch against torch's AdaGrad, blocks against all of X."""

import pytest
import torch
from vectors_corpus import corpus_of, two_topics

from lmzoo.core.configs import defaults
from lmzoo.words.vectors import glove as module
from lmzoo.words.vectors.cooccurrence import Cooccurrences
from lmzoo.words.vectors.glove import Block, GloVe, glove
from lmzoo.words.vectors.method import methods

LINES = ["a b c a b", "d a e", "c", "b c d e a", "e e b"]


def small(**options) -> GloVe:
    method = methods.build(defaults("method", "glove") | {"dim": 3, "min_count": 1, "window": 2} | options)
    assert isinstance(method, GloVe)
    return method


def objective(w: torch.Tensor, w_: torch.Tensor, log: torch.Tensor, f: torch.Tensor) -> torch.Tensor:
    """J of rows [w b 1] and [w̃ 1 b̃] for dense (R, C) log X and f."""
    error = w[:, :-2] @ w_[:, :-2].T + w[:, -2, None] + w_[:, -1] - log
    return (f * error**2).sum() / 2


def dense(block: Block) -> torch.Tensor:
    """(R, C) f of a block, 0 where X is 0."""
    return torch.zeros(block.minus_log.shape).index_put_((block.by_row.owners(), block.by_row.columns), block.f)


def test_the_gradient_is_that_of_the_formula():
    random = torch.Generator().manual_seed(0)
    w, w_ = (torch.randn(n, 5, generator=random) for n in (4, 3))
    w[:, -1] = w_[:, -2] = 1
    f, log = torch.rand(2, 4, 3, generator=random)
    f = f * (f > 0.5)
    row, column = f.nonzero().T
    block = Block.of(slice(0, 4), slice(0, 3), row, column, log[row, column], f[row, column])
    leaves = w.clone().requires_grad_(), w_.clone().requires_grad_()
    loss = objective(*leaves, log, f)
    expected = torch.autograd.grad(loss, leaves)
    found = glove(w, w_, block)
    assert found[0] == pytest.approx(float(loss.detach()))
    torch.testing.assert_close(found[1], expected[0])
    torch.testing.assert_close(found[2], expected[1])


def test_the_blocks_are_all_of_x(monkeypatch):
    monkeypatch.setattr(module, "GROUP", 2)
    method = small()
    method.start(corpus_of(LINES), 0)
    X = Cooccurrences.of(method.text, 2, "harmonic")
    assert len(method.blocks) == 9
    found, f = torch.zeros(2, 5, 5)
    for block in method.blocks:
        found[block.rows, block.columns] += block.minus_log.to_dense()
        f[block.rows, block.columns] += dense(block)
    places = method.place[X.row], method.place[X.column]
    torch.testing.assert_close(found[places], -X.weight.log())
    torch.testing.assert_close(f[places], (X.weight / 10) ** 0.75)
    assert int((f > 0).sum()) == len(X.row)


def test_an_epoch_is_that_of_torchs_adagrad(monkeypatch):
    monkeypatch.setattr(module, "GROUP", 2)
    method = small(epochs=1, lr=0.3)
    method.start(corpus_of(LINES), 0)
    both = method.parameters.clone().requires_grad_()
    adagrad = torch.optim.Adagrad([both], lr=1, initial_accumulator_value=1, eps=0)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(1)).tolist()
    for block in (method.blocks[n] for n in order):
        f = dense(block)
        w, w_ = both[0, block.rows], both[1, block.columns]
        (gradient,) = torch.autograd.grad(0.3 * objective(w, w_, -block.minus_log.to_dense(), f), both)
        gradient[0, :, -1] = gradient[1, :, -2] = 0  # of the constants
        both.grad = gradient
        adagrad.step()
    method.step(0)
    torch.testing.assert_close(method.parameters, both.detach())
    expected = (both[0] + both[1]).detach()[method.place][:, :3]
    torch.testing.assert_close(method.vectors(), expected)


@pytest.mark.parametrize("group", [1, 400])
def test_two_topics_are_distinguished_by_the_lines_of_both(group, monkeypatch):
    monkeypatch.setattr(module, "GROUP", group)
    method = small(dim=8, window=10, epochs=10)
    method.start(two_topics(mixed=10), 0)
    assert len(method.blocks) == (144 if group == 1 else 1)
    losses = [method.step(number)["train/loss"] for number in range(method.steps)]
    assert losses[-1] < 0.1 * losses[0]
    unit = torch.nn.functional.normalize(method.vectors())
    of_first = torch.tensor([word.startswith("a") for word in method.words])
    cosines, same = unit @ unit.T, of_first[:, None] == of_first
    assert cosines[same].min() > 0.5
    assert cosines[~same].max() < 0
