"""What is known of tensors of another device, here ``meta``, which has no values to copy back."""

import pytest
import torch
from torch import Tensor

from lmzoo.numerics.gpu_sync import (
    DeferredChecks,
    TensorCache,
    assume,
    defer_checks,
    on_host,
    own_copy,
    to_device_async,
)

META = torch.device("meta")


def test_values_that_were_sent_are_known_until_they_change():
    values = torch.arange(4)
    there = to_device_async(values, META)
    copy = own_copy(there)
    assert there.device == copy.device == META
    assert torch.equal(on_host(there), values)
    assert torch.equal(on_host(copy), values)
    there += 1
    assert torch.equal(on_host(copy), values)
    for unknown in (there, own_copy(there), there.clone()):
        with pytest.raises(NotImplementedError, match="meta tensor"):
            on_host(unknown)


def test_what_another_device_has_is_not_known():
    there = torch.arange(4, device=META)
    assert to_device_async(there, META) is there
    with pytest.raises(NotImplementedError, match="meta tensor"):
        on_host(there)


def test_a_tensor_of_the_cpu_is_its_own_values():
    values = torch.arange(4)
    assert to_device_async(values, values.device) is on_host(values) is values


def test_a_function_is_computed_once_for_each_tensor_and_again_after_a_change():
    calls = []

    @TensorCache
    def total(tensor: Tensor) -> int:
        calls.append(tensor.tolist())
        return int(tensor.sum())

    one, same = torch.tensor([1, 2]), torch.tensor([1, 2])
    assert [total(one), total(one), total(same)] == [3, 3, 3]
    assert calls == [[1, 2]] * 2
    one[0] = 5
    assert [total(one), total(same)] == [7, 3]
    assert calls[2:] == [[5, 2]]
    with torch.inference_mode():
        fleeting = torch.tensor([1])
        assert total(fleeting) == 1
        fleeting += 1
        assert total(fleeting) == 2


def test_a_fact_is_believed_on_another_device_alone_and_in_its_context():
    likely, trust = torch.tensor(False), DeferredChecks()
    with defer_checks(trust):
        assert not assume(likely)
        assert assume(likely.to(META))
    assert len(trust.facts) == 1
    with pytest.raises(RuntimeError, match="meta"):
        assume(likely.to(META))
