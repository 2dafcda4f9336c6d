"""The likeliest sentences of a language model, exactly."""

import heapq
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.corpus import EOS_ID
from lmzoo.protocol.model import LanguageModel, State, evaluating
from lmzoo.protocol.sampling import Candidate

ROWS = 16
"""How many prefixes are read at once."""
MOST = 600
"""How many prefixes are read before the search is given up."""


class _Prefix(NamedTuple):
    """The beginning of a sentence, and its next words by falling probability."""

    tokens: list[int]
    logprobs: Tensor
    """(V,) log p of the prefix with each next word."""
    words: Tensor
    begun: State


@torch.no_grad()
def likeliest(model: LanguageModel, number: int) -> list[Candidate] | None:
    """The likeliest sentences and their log p in nats, the best first; None if there are too many candidates.

    This is a best-first search (A*, Hart, Nilsson & Raphael 1968): no sentence is more probable than its prefix. It
    ends soon if few words are likely at each place, as with `lmzoo.models.combined.constrained.Constrained`.
    """
    found: list[Candidate] = []
    queue: list[tuple[float, int, _Prefix, int]] = []
    order, read = count(), 0

    def offer(prefix: _Prefix, rank: int) -> None:
        if rank < len(prefix.words) and float(prefix.logprobs[rank]) > -torch.inf:
            heapq.heappush(queue, (-float(prefix.logprobs[rank]), next(order), prefix, rank))

    def add(tokens: list[list[int]], scores: Tensor, state: State) -> None:
        logprobs, begun = model.begin_step(state)
        values, words = (scores[:, None] + logprobs.double().cpu()).sort(descending=True)
        for row, text in enumerate(tokens):
            offer(_Prefix(text, values[row], words[row], tuple(part[row : row + 1] for part in begun)), 0)

    with evaluating(model):
        add([[]], torch.zeros(1, dtype=torch.float64), model.initial_state(1))
        while queue and len(found) < number:
            chosen = []
            while queue and len(chosen) < ROWS:
                score, _, prefix, rank = queue[0]
                ended = int(prefix.words[rank]) == EOS_ID
                if ended and chosen:
                    break  # something better may follow from those chosen
                heapq.heappop(queue)
                offer(prefix, rank + 1)
                if ended:
                    found.append(Candidate([*prefix.tokens, EOS_ID], -score))
                    break
                chosen.append((score, prefix, rank))
            if not chosen:
                continue
            if (read := read + len(chosen)) > MOST:
                return None
            words = torch.stack([prefix.words[rank] for _, prefix, rank in chosen])
            begun = tuple(map(torch.cat, zip(*(prefix.begun for _, prefix, _ in chosen), strict=True)))
            tokens = [[*prefix.tokens, int(prefix.words[rank])] for _, prefix, rank in chosen]
            scores = torch.tensor([-score for score, _, _ in chosen], dtype=torch.float64)
            add(tokens, scores, model.end_step(words.to(model.device), begun))
    return found
