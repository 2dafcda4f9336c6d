"""Dropout: numbers that are 0 in training, so that none relies on another.

Srivastava, Hinton, Krizhevsky, Sutskever & Salakhutdinov, "Dropout", JMLR 2014,
https://jmlr.org/papers/v15/srivastava14a.html
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DRAWS = 2**16
"""How many values the 16 random bits have that decide on a number on the CPU."""


def dropout(x: Tensor, rate: float, training: bool = True) -> Tensor:
    """x, in training with a share ``rate`` of its numbers set to 0, and the others divided by 1 - rate.

    On the CPU four elements share a random number of 64 bits, which takes less time than a number each; so ``rate`` is
    rounded down to a multiple of 2^-16 there.
    """
    if not training or rate == 0 or x.device.type != "cpu":
        return F.dropout(x, rate, training)
    threshold = int(DRAWS * rate) - DRAWS // 2
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None).view(torch.int16)
    return x * (bits[: x.numel()].view(x.shape) >= threshold).to(x.dtype).div_(1 - rate)


class Dropping(nn.Module):
    """`dropout`; ``locked``: of (B, T, d) vectors, with one mask for all steps of a row (Gal & Ghahramani 2016)."""

    def __init__(self, rate: float, locked: bool = False):
        super().__init__()
        self.rate, self.locked = rate, locked

    def forward(self, vectors: Tensor) -> Tensor:
        if not self.locked:
            return dropout(vectors, self.rate, self.training)
        return vectors * dropout(torch.ones_like(vectors[:, :1]), self.rate, self.training)
