"""Models that turn the tokens of a sentence into vectors, and the vectors of whole texts."""

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus.windows import SentenceWindows

WINDOW_TOKENS = 8192
"""How many tokens are encoded at once. Vectors do not depend on it."""


@runtime_checkable
class Encoder(Protocol):
    """A model that gives every token of a sentence a vector, made from all words of the sentence."""

    def embed(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T) tokens of sentences, and a mask that is False on padding -> (B, T, h) vectors."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the tokens must be."""
        ...


@torch.no_grad()
def embed_lines(encoder: Encoder, tokens: Tensor) -> Tensor:
    """Embed each line of a (N,) text by itself; (N, h) in the order of the text, on the CPU.

    Raises: UserError where a number is not finite.
    """
    places, parts = [], []
    for window in SentenceWindows(tokens, WINDOW_TOKENS, seed=None).epoch(0):
        vectors = encoder.embed(window.tokens.to(encoder.device), window.inside.to(encoder.device))
        places.append(window.unpadded(window.positions))
        parts.append(window.unpadded(vectors.cpu()))
    rows = torch.cat(parts)  # (N, h)
    if not bool(rows.isfinite().all()):
        raise UserError("the model's vectors of tokens are not finite", "train it again")
    return torch.empty_like(rows).index_copy_(0, torch.cat(places), rows)
