"""The types in which numbers are multiplied and summed."""

import torch

from lmzoo.numerics.precision import at_least_float32, in_autocast_type


def test_sums_are_single_or_double():
    types = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
    assert [at_least_float32(torch.zeros(1, dtype=kind)).dtype for kind in types] == [
        *[torch.float32] * 3,
        torch.float64,
    ]


def test_products_have_the_type_of_autocast_where_it_is_on():
    one, two = torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    assert [x.dtype for x in in_autocast_type(one, two)] == [torch.float32, torch.float64]
    with torch.autocast("cpu", torch.bfloat16):
        assert [x.dtype for x in in_autocast_type(one, two)] == [torch.bfloat16] * 2
