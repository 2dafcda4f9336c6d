"""Functions of the distribution of the next word at each token of a text."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from lmzoo.corpus import Context
from lmzoo.protocol.model import LanguageModel, State, evaluating

ROWS = 64
"""The number of sentences read in a batch."""

NextWordMeasure = Callable[[Tensor, Tensor], Tensor]
"""(B, V) log p of the next words in nats, the (B,) actual next words -> (B, k)."""


@torch.no_grad()
def at_each_token(model: LanguageModel, lines: Sequence[Tensor], context: Context, measure: NextWordMeasure) -> Tensor:
    """(N, k) values of a measure of the distribution before each token of lines, in order.

    The model reads token by token, to obtain whole distributions. This is slow compared with scoring.

    Args:
        lines: (n,) words each, terminated by `<eos>`.
    """
    with evaluating(model):
        if context == "stream":
            return _side_by_side(model, [torch.cat([*lines])], measure)[0]
        order = sorted(range(len(lines)), key=lambda number: -len(lines[number]))
        measured: dict[int, Tensor] = {}
        for begin in range(0, len(order), ROWS):
            rows = order[begin : begin + ROWS]
            measured |= zip(rows, _side_by_side(model, [lines[number] for number in rows], measure), strict=True)
    return torch.cat([measured[number] for number in range(len(lines))])


def _side_by_side(model: LanguageModel, rows: Sequence[Tensor], measure: NextWordMeasure) -> list[Tensor]:
    """(n, k) values for each row of words, the longest row first. Finished rows are dropped from the batch."""
    state: State = model.initial_state(len(rows))
    found: list[list[Tensor]] = [[] for _ in rows]
    for t in range(len(rows[0])):
        going = sum(len(row) > t for row in rows)
        words = torch.stack([row[t] for row in rows[:going]]).to(model.device)
        state = tuple(part[:going] for part in state)
        logprobs, begun = model.begin_step(state)
        for row, value in zip(found, measure(logprobs, words).cpu(), strict=False):
            row.append(value)
        state = model.end_step(words, begun)
    return [torch.stack(values) for values in found]


def entropy_and_rank(logprobs: Tensor, words: Tensor) -> Tensor:
    """(B, 2): the entropy of the next word in bits, and the rank of the actual next word, 1 for the likeliest."""
    logprobs = logprobs.double()
    entropy = torch.special.entr(logprobs.exp()).sum(1) / math.log(2)
    rank = 1 + (logprobs > logprobs.gather(1, words[:, None])).sum(1)
    return torch.stack([entropy, rank], 1)
