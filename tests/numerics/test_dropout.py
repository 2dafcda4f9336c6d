"""Dropout against what its definition says of the numbers that are left."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lmzoo.numerics.dropout import Dropping, dropout


def kept(rate: float, number: int = 400_000) -> Tensor:
    """Which of so many numbers are not 0."""
    torch.manual_seed(0)
    return (dropout(torch.ones(number, dtype=torch.float64), rate) > 0).double()


@pytest.mark.parametrize("rate", [0.001, 0.3, 0.5, 0.65, 0.99])
def test_a_share_is_0_and_the_mean_stays(rate: float):
    left = kept(rate)
    assert float(left.mean()) == pytest.approx(1 - rate, abs=5 * (rate * (1 - rate) / len(left)) ** 0.5)
    assert set(dropout(torch.ones(9999, dtype=torch.float64), rate).unique().tolist()) == {0.0, 1 / (1 - rate)}


@pytest.mark.parametrize("apart", [1, 2, 3, 4, 8])
def test_neighbours_do_not_depend_on_each_other(apart: int):
    left = kept(0.3)
    both = float((left[apart:] * left[:-apart]).mean())
    assert both == pytest.approx(0.49, abs=5 * (0.49 * 0.51 / len(left)) ** 0.5)


@pytest.mark.parametrize("shape", [(), (1,), (3, 7), (0, 4), (5, 1, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_shape_type_and_layout_are_kept_and_what_is_0_has_no_gradient(shape: tuple[int, ...], dtype: torch.dtype):
    x = torch.ones(shape, dtype=dtype).mT if len(shape) == 2 else torch.ones(shape, dtype=dtype)
    left = dropout(x.requires_grad_(), 0.5)
    left.sum().backward()
    assert (left.shape, left.dtype) == (x.shape, dtype)
    assert torch.equal(x.grad, left.detach())  # pyright: ignore[reportArgumentType]


def test_a_seed_gives_its_numbers_and_others_follow():
    first = kept(0.5)
    assert torch.equal(first, kept(0.5))
    assert not torch.equal(first, (dropout(torch.ones_like(first), 0.5) > 0).double())


@pytest.mark.parametrize(("rate", "training"), [(0.0, True), (0.5, False)])
def test_where_nothing_is_left_out_no_number_is_drawn(rate: float, training: bool):
    x, before = torch.randn(3, 4), torch.get_rng_state()
    assert torch.equal(dropout(x, rate, training), x)
    assert torch.equal(torch.get_rng_state(), before)


def test_all_but_all_may_be_left_out():
    assert not dropout(torch.ones(1000), 1 - 2**-30).isnan().any()


def test_another_device_has_the_dropout_of_pytorch(monkeypatch: pytest.MonkeyPatch):
    seen = []
    monkeypatch.setattr(F, "dropout", lambda *arguments: seen.append(arguments))
    dropout(torch.ones(3, device="meta"), 0.5)
    assert [arguments[1:] for arguments in seen] == [(0.5, True)]


def test_a_locked_mask_is_the_same_at_all_steps_and_another_for_each_row_and_window():
    drop, ones = Dropping(0.5, locked=True), torch.ones(4, 9, 50)
    first, second = drop(ones), drop(ones)
    assert set(first.unique().tolist()) == {0.0, 2.0}
    assert torch.equal(first, first[:, :1].expand_as(first))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, second)
    assert torch.equal(drop.eval()(ones), ones)
