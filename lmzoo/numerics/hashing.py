"""Places of numbers, found by hashing."""

import torch
from torch import Tensor

ODD = -0x61C8864680B583EB
"""2^64 over the golden ratio, as a signed number (Knuth 1998, section 6.4)."""


class HashTable:
    """Where each of K distinct numbers stands: open addressing with linear probing (Knuth 1998, algorithm 6.4L).

    At most a third of the slots is taken. Every number that is found has been compared with the key, so two numbers
    with one hash are told apart.

    Args:
        keys: (K,) int64, distinct.
    """

    def __init__(self, keys: Tensor):
        self.keys = keys
        self.bits = (3 * len(keys)).bit_length()
        home, place = self._home(keys).sort()
        later = torch.arange(len(keys), device=keys.device)
        slot = (home - later).cummax(0).values + later  # each key's home, or the next slot after the key before
        self.slots = torch.full((2**self.bits + len(keys) + 1,), -1, dtype=torch.int32, device=keys.device)
        self.slots.index_copy_(0, slot, place.int())  # the place of a key, -1 in empty slots; the last one is empty

    def find(self, wanted: Tensor) -> Tensor:
        """(N,) int64 numbers -> (N,) int64 places among the keys; -1 for a number that is no key."""
        if not len(self.keys):
            return torch.full_like(wanted, -1)
        return self._probe(wanted, self._home(wanted)).long()

    def _home(self, numbers: Tensor) -> Tensor:
        """(N,) the slots in which the search begins."""
        product = numbers * ODD
        product ^= product >> 32
        return product.bitwise_and_(2**self.bits - 1)

    def _probe(self, wanted: Tensor, slot: Tensor) -> Tensor:
        place = self.slots.index_select(0, slot)
        differs = self.keys.index_select(0, place.clamp(min=0)) != wanted
        taken = (differs & (place >= 0)).nonzero()[:, 0]  # by another key
        place.masked_fill_(differs, -1)
        if len(taken):
            place.index_copy_(0, taken, self._probe(wanted.index_select(0, taken), slot.index_select(0, taken) + 1))
        return place
