"""Ragged groups as rows of equal length."""

import math

import torch
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.models.hmm.inference.grouping import by_source, group


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(1, 6))
def test_group_puts_every_item_into_one_row_and_wastes_less_than_a_row_a_label(labels, size):
    members, row_label = group(torch.tensor(labels), size)
    dealt = [(int(item), int(label)) for row, label in zip(members, row_label, strict=True) for item in row]
    assert sorted(dealt[i] for i in range(len(dealt)) if dealt[i][0] < len(labels)) == list(enumerate(labels))
    assert row_label.tolist() == sorted(
        label for label in set(labels) for _ in range(math.ceil(labels.count(label) / size))
    )


def test_group_is_as_its_example():
    members, label = group(torch.tensor([7, 3, 7, 7, 3]), 2)
    assert members.tolist() == [[1, 4], [0, 2], [3, 5]]
    assert label.tolist() == [3, 7, 7]


def test_pairs_are_found_by_their_source():
    assert list(by_source(torch.tensor([0, 0, 2, 3, 3]))) == [(0, slice(0, 2)), (2, slice(2, 3)), (3, slice(3, 5))]
    assert list(by_source(torch.tensor([], dtype=torch.int64))) == []
