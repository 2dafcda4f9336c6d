"""Contextual vectors of the tokens of a text."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus.windows import SentenceWindows
from lmzoo.protocol.abilities import Encoder

WINDOW_TOKENS = 8192
"""The number of tokens encoded at once; vectors do not depend on it."""


@torch.no_grad()
def embed_lines(encoder: Encoder, tokens: Tensor) -> Tensor:
    """(N, h) embeddings of a (N,) text, by line, on the CPU; raise a UserError if one is not finite."""
    rows = torch.empty(0)  # (N, h), the only tensor of this size: those of a large text fill the memory
    for window in SentenceWindows(tokens, WINDOW_TOKENS, seed=None).epoch(0):
        vectors = encoder.embed(window.tokens.to(encoder.device), window.inside.to(encoder.device))
        vectors = window.unpadded(vectors.cpu())
        if not bool(vectors.isfinite().all()):
            raise UserError("the model's vectors of tokens are not finite", "train it again")
        if not len(rows):
            rows = vectors.new_empty(len(tokens), vectors.shape[-1])
        rows[window.unpadded(window.positions)] = vectors
    return rows


@dataclass(frozen=True)
class EmbeddedText:
    """The words of a text and their contextual embeddings, computed from whole lines.

    Attributes:
        words: the N words of the text, unchanged even if the model reads them as `<unk>`.
        lines: (N,) the line number of each word, from 0.
        embeddings: (N, h) float32, of unit length.
    """

    words: list[str]
    lines: Tensor
    embeddings: Tensor

    def neighbours(self, vector: Tensor, count: int, word: str) -> list[tuple[float, int]]:
        """The ``count`` tokens most similar to an (h,) vector, as cosine and index; each word but ``word`` once."""
        cosines = self.embeddings @ vector
        found, seen = [], {word}
        for other in cosines.argsort(descending=True).tolist():
            if self.words[other] not in seen:
                seen.add(self.words[other])
                found.append((float(cosines[other]), other))
                if len(found) == count:
                    break
        return found

    def passage(self, place: int, words: int) -> str:
        """A token in brackets, with up to ``words`` words of its line before it and after it."""
        low, high = max(0, place - words), place + words + 1
        same = (self.lines[low:high] == self.lines[place]).tolist()
        inside = [number for number, own in enumerate(same, low) if own]
        return " ".join(f"[{self.words[n]}]" if n == place else self.words[n] for n in inside)
