"""Modifications of the distribution from which words are sampled."""

import math
from dataclasses import dataclass, fields
from numbers import Integral, Real

import torch
from torch import Tensor

from lmzoo.core.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Modifications of the distribution from which words are sampled; none by default.

    The penalty is applied first, then the temperature, then each truncation in this order; ``top_k=1`` is greedy.

    Attributes:
        temperature: τ; p is replaced by p(x)^(1/τ) / Σ p^(1/τ).
        top_k: only the k likeliest words (Fan et al. 2018).
        top_p: the smallest set of likeliest words with this total probability (Holtzman et al. 2020).
        typical: the smallest set of words with this total probability whose -log p is nearest to the entropy (Meister
            et al. 2023).
        repetition: factor of at least 1 for log p of words already in the text (after Keskar et al. 2019); `<eos>` is
            exempt, and with ``context="sentence"`` only the sentence counts.

    Raises: UserError if a value is invalid.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    typical: float = 1.0
    repetition: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value, whole = getattr(self, field.name), field.name == "top_k"
            if not isinstance(value, Integral if whole else Real) and not (whole and value is None):
                raise UserError(f"{field.name}={value!r}: must be {'an integer' if whole else 'a number'}")
        if not 0 < self.temperature < math.inf:
            advice = None if self.temperature else "top_k=1 draws the likeliest word"
            raise UserError(f"temperature={self.temperature}: must be positive and finite", advice)
        if self.top_k is not None and self.top_k < 1:
            raise UserError(f"top_k={self.top_k}: must be at least 1")
        if not 1 <= self.repetition < math.inf:
            raise UserError(f"repetition={self.repetition}: must be at least 1 and finite")
        for name in ("top_p", "typical"):
            if not 0 < getattr(self, name) <= 1:
                raise UserError(f"{name}={getattr(self, name)}: must be above 0 and at most 1")

    def weights(self, logprobs: Tensor, said: Tensor | None = None) -> Tensor:
        """(B, V) log-probabilities in nats -> (B, V) unnormalized sampling probabilities; float64 if modified.

        Args:
            said: (B, V) bool, words that ``repetition`` applies to; None: none.
        """
        if self == Decoding():
            return logprobs.exp()
        logprobs = logprobs.double()
        if said is not None:
            logprobs = logprobs.where(~said, self.repetition * logprobs)
        p = ((logprobs - logprobs.amax(1, keepdim=True)) / self.temperature).exp()
        if self.top_k is not None and self.top_k < p.shape[1]:
            likeliest = p.topk(self.top_k, dim=1)
            p = torch.zeros_like(p).scatter(1, likeliest.indices, likeliest.values)
        if self.top_p < 1:
            p = _nucleus(p, p, self.top_p)
        if self.typical < 1:
            surprisal = -(p / p.sum(1, keepdim=True)).log()  # (B, V)
            entropy = torch.special.entr(p / p.sum(1, keepdim=True)).sum(1, keepdim=True)
            p = _nucleus(p, -(surprisal - entropy).abs(), self.typical)
        return p


def _nucleus(p: Tensor, rank: Tensor, mass: float) -> Tensor:
    """Truncate (B, V) weights p to the words of highest ``rank`` (B, V) with the share ``mass`` of the total."""
    enough = mass * p.sum(1, keepdim=True)
    for most in (min(512, p.shape[1]), p.shape[1]):  # few words have most of the mass, so sorting all is rare
        first = rank.topk(most, dim=1).indices
        ordered = p.gather(1, first)
        total = ordered.cumsum(1)
        if bool((total[:, -1:] >= enough).all()):
            break
    return torch.zeros_like(p).scatter(1, first, ordered.where(total - ordered < enough, 0))
