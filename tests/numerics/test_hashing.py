"""Hash tables against lists."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lmzoo.numerics import hashing
from lmzoo.numerics.hashing import HashTable

numbers = st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 12), max_size=60)


@settings(deadline=None)
@given(numbers, numbers)
@example([], [0, -1])
@example([5, 3, 5, 5, 3], [])
@example([0], [0, 0, -1, 1])
@example([n << 32 for n in range(50)], [3 << 32, 51 << 32])
def test_places_are_of_equal_numbers(keys: list[int], wanted: list[int]):
    wanted = [*wanted, *keys[::2]]
    table = HashTable(torch.tensor(keys, dtype=torch.int64))
    found = table.find(torch.tensor(wanted, dtype=torch.int64))
    assert found.dtype == torch.int64
    for number, place in zip(wanted, found.tolist(), strict=True):
        assert (keys[place] if place >= 0 else None) == (number if number in keys else None)


@pytest.mark.parametrize("home", [0, -1])
def test_numbers_with_one_hash_are_distinguished(home: int, monkeypatch: pytest.MonkeyPatch):
    """Every search begins in the first slot, or in the last."""

    def crowd(table: HashTable, numbers: torch.Tensor) -> torch.Tensor:
        return torch.full_like(numbers, home % 2**table.bits)

    monkeypatch.setattr(HashTable, "_home", crowd)
    keys = torch.arange(100) * 7
    assert torch.equal(HashTable(keys).find(keys), torch.arange(100))
    assert HashTable(keys).find(keys + 1).eq(-1).all()


@pytest.mark.parametrize(("context", "word"), [(10_000, 3), (2**40, 2**32)])
def test_few_searches_are_long(context: int, word: int):
    keys = torch.arange(1000)[:, None] * context + torch.arange(34) * word  # as those of n-grams, small and large
    table = HashTable(keys.flatten())
    assert table.slots.nbytes <= 16 * len(table.keys)
    taken = table.slots.nonzero()[:, 0]
    assert len(taken) == len(table.keys) - 1  # the first one has none
    away = (taken - table._home(table.keys[table.slots[taken]])) % len(table.slots)
    assert away.max() < 20
    assert away.double().mean() < 0.5


def test_a_table_is_built_block_by_block(monkeypatch: pytest.MonkeyPatch):
    """No int64 beside the keys is as long as they are: only places whose home others have are hashed all together."""
    sizes, home, keys = [], HashTable._home, torch.arange(5000) ** 2 * 1_000_003
    monkeypatch.setattr(hashing, "BLOCK", 100)
    monkeypatch.setattr(HashTable, "_home", lambda table, numbers: sizes.append(len(numbers)) or home(table, numbers))
    HashTable(keys)
    *blocks, rest = sizes
    assert max(blocks) == 100
    assert sum(blocks) == 2 * (len(keys) - 1)
    assert 0 < rest < len(keys) / 3
