"""Places of numbers among others, found by search or by hashing."""

import torch
from torch import Tensor

ODD = -0x61C8864680B583EB
"""2^64 over the golden ratio, as a signed number (Knuth 1998, section 6.4)."""

BLOCK = 2**20
"""How many keys are hashed at once."""


def find(keys: Tensor, wanted: Tensor) -> Tensor:
    """The places of some wanted numbers among (K,) ascending keys; -1 for a number that is no key."""
    if not len(keys):
        return torch.full_like(wanted, -1)
    ascending, order = wanted.flatten().sort()  # neighbours search the same memory: twice as fast
    place = torch.searchsorted(keys, ascending).clamp_(max=len(keys) - 1)
    found = torch.where(keys[place] == ascending, place, -1)
    return torch.empty_like(found).index_copy_(0, order, found).view_as(wanted)


class HashTable:
    """Where each of K numbers stands, of equal ones any: open addressing, linear probing (Knuth 1998, algorithm 6.4L).

    A quarter to half of the slots is taken. Every number that is found has been compared with the key, so two numbers
    with one hash are told apart. The first key has no slot: an empty slot holds its place, 0, where a number that has
    come so far is compared with it.

    Args:
        keys: (K,) int64.
    """

    def __init__(self, keys: Tensor):
        self.keys = keys
        self.bits = (2 * len(keys)).bit_length()
        self.slots = torch.zeros(2**self.bits, dtype=torch.int32, device=keys.device)
        places = torch.arange(len(keys), dtype=torch.int32, device=keys.device)[1:].split(BLOCK)
        for place in places:  # of keys with one home, the last one has it
            self.slots.index_copy_(0, self._home(keys.index_select(0, place)), place)
        homes = ((place, self._home(keys.index_select(0, place))) for place in places)
        place = torch.cat([place[self.slots.index_select(0, home) != place] for place, home in homes])
        slot = self._home(keys.index_select(0, place))
        while len(place):  # the others go to the next slot that is free, which again the last one has
            slot = self._next(slot)
            free = (self.slots.index_select(0, slot) == 0).nonzero()[:, 0]
            self.slots.index_copy_(0, slot.index_select(0, free), place.index_select(0, free))
            lost = (self.slots.index_select(0, slot) != place).nonzero()[:, 0]
            slot, place = slot.index_select(0, lost), place.index_select(0, lost)

    def find(self, wanted: Tensor) -> Tensor:
        """(N,) int64 numbers -> (N,) int64 places among the keys; -1 for a number that is no key."""
        if not len(self.keys):
            return torch.full_like(wanted, -1)
        return self._probe(wanted, self._home(wanted)).long()

    def _home(self, numbers: Tensor) -> Tensor:
        """(N,) the slots in which the search begins."""
        product = numbers * ODD
        product >>= 64 - self.bits
        return product.bitwise_and_(2**self.bits - 1)

    def _next(self, slot: Tensor) -> Tensor:
        """(N,) the slots after some, the first one after the last."""
        return (slot + 1).bitwise_and_(2**self.bits - 1)

    def _probe(self, wanted: Tensor, slot: Tensor) -> Tensor:
        place = self.slots.index_select(0, slot)
        differs = self.keys.index_select(0, place) != wanted
        taken = (differs & (place > 0)).nonzero()[:, 0]  # by another key
        place.masked_fill_(differs, -1)
        if len(taken):
            slot = self._next(slot.index_select(0, taken))
            place.index_copy_(0, taken, self._probe(wanted.index_select(0, taken), slot))
        return place
