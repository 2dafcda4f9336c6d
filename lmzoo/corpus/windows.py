"""Token streams split into windows, the units of training steps and of evaluation."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.numerics.gpu_sync import to_device_async

HALVED, DEVIATION, SHORTEST = 0.05, 5.0, 5.0
"""For random window lengths: the fraction with half the mean, the standard deviation, and the minimum."""


@dataclass(frozen=True)
class Window:
    """A rectangle of tokens.

    Attributes:
        tokens: (B, T) int64.
        mask: (B, T) bool, False on padding; None if there is no padding.
        positions: (B, T) int64, the indices of the tokens in the text; arbitrary on padding.
        starts: whether all rows begin after a sentence boundary, from `initial_state`; otherwise from the state after
            the previous window.
        conditions: (B,) int64, the condition of each row's line; None if lines have none.
    """

    tokens: Tensor
    mask: Tensor | None
    positions: Tensor
    starts: bool
    conditions: Tensor | None = None

    @property
    def inside(self) -> Tensor:
        """(B, T) bool, False on padding."""
        return torch.ones_like(self.tokens, dtype=torch.bool) if self.mask is None else self.mask

    def unpadded(self, values: Tensor) -> Tensor:
        """(B, T, …) values of the tokens -> (N, …) values of the N tokens without padding, in row order."""
        values = values.flatten(0, 1)
        if self.mask is None:
            return values
        places = to_device_async(self.mask.flatten().nonzero()[:, 0], values.device)
        return values[places]

    @property
    def count(self) -> int:
        """The number of tokens without padding."""
        return self.tokens.numel() if self.mask is None else int(self.mask.sum())

    def part(self, number: int, of: int) -> "Window":
        """The rows ``number``, ``number + of``, …"""
        rows = slice(number, None, of)
        mask = None if self.mask is None else self.mask[rows]
        conditions = None if self.conditions is None else self.conditions[rows]
        return Window(self.tokens[rows], mask, self.positions[rows], self.starts, conditions)


class StreamWindows:
    """A stream in ``batch_size`` rows of equal length, cut into consecutive windows of ``bptt`` tokens per row.

    With a ``seed``, lengths are drawn for each epoch from the seed and the epoch's number, as in Merity et al. (2018),
    section 5.1: normal about ``bptt``, or in one of 20 windows about half of it, with deviation 5. They are then scaled
    to the length of a row, so that the number of windows is the same in each epoch.

    At most ``batch_size - 1`` tokens at the end of the stream are dropped; perplexity uses one row, which drops none.
    """

    def __init__(self, tokens: Tensor, batch_size: int, bptt: int, seed: int | None = None):
        length = len(tokens) // batch_size
        self.rows = tokens[: length * batch_size].view(batch_size, length)
        self.bptt, self.seed = bptt, seed

    def __len__(self) -> int:
        return -(-self.rows.shape[1] // self.bptt)

    def _cuts(self, number: int) -> list[int]:
        """The start of each window of an epoch, and the end of the last one."""
        length, windows = self.rows.shape[1], len(self)
        if self.seed is None:
            return [*range(0, length, self.bptt), length]
        random = _random(self.seed, number)
        halved = torch.rand(windows, generator=random, dtype=torch.float64) < HALVED
        drawn = torch.where(halved, self.bptt / 2, self.bptt) + DEVIATION * torch.randn(windows, generator=random)
        parts = drawn.double().clamp(min=SHORTEST).cumsum(0)
        beyond = (parts / parts[-1] * (length - windows)).round().long()  # besides one token for each window
        return [0, *(beyond + torch.arange(1, windows + 1)).tolist()]

    def epoch(self, number: int, skip: int = 0) -> Iterator[Window]:
        """The windows of an epoch after the first ``skip``."""
        first = torch.arange(len(self.rows), device=self.rows.device)[:, None] * self.rows.shape[1]  # (B, 1)
        cuts = self._cuts(number)
        for index in range(skip, len(self)):
            tokens = self.rows[:, cuts[index] : cuts[index + 1]].long()
            inside = cuts[index] + torch.arange(tokens.shape[1], device=tokens.device)
            yield Window(tokens, None, first + inside, starts=index == 0)


class SentenceWindows:
    """Windows of independent lines of similar length, at most ``max_tokens`` tokens per window, padding included.

    The groups and their order depend only on the seed and the epoch's number, so training can resume at any window. A
    line longer than ``max_tokens`` is a window by itself.
    The L lines may have (L,) conditions.
    """

    def __init__(self, tokens: Tensor, max_tokens: int, seed: int | None, conditions: Tensor | None = None):
        ends = (tokens == EOS_ID).nonzero()[:, 0] + 1  # (L,)
        self.tokens, self.conditions = tokens, conditions
        self.starts = torch.cat([ends.new_zeros(1), ends[:-1]])
        self.lengths = ends - self.starts
        self.max_tokens = max_tokens
        self.seed = seed
        self.longest_first = torch.argsort(self.lengths, descending=True, stable=True)
        self.size = len(self._groups(self.longest_first))

    def __len__(self) -> int:
        return self.size

    def _groups(self, order: Tensor) -> list[Tensor]:
        """Group lines, sorted by falling length, to at most ``max_tokens`` tokens per group, padding included."""
        lengths = self.lengths[order].tolist()
        groups, first = [], 0
        while first < len(lengths):
            rows = max(1, self.max_tokens // lengths[first])
            groups.append(order[first : first + rows])
            first += rows
        return groups

    def epoch(self, number: int, skip: int = 0) -> Iterator[Window]:
        """The windows of an epoch after the first ``skip``; without a seed, by falling length of lines."""
        order, schedule = self.longest_first, range(self.size)
        if self.seed is not None:
            random = _random(self.seed, number)
            shuffled = torch.randperm(len(self.lengths), generator=random)
            order = shuffled[torch.argsort(self.lengths[shuffled], descending=True, stable=True)]
            schedule = torch.randperm(self.size, generator=random).tolist()
        groups = self._groups(order)
        for index in schedule[skip:]:
            yield self._window(groups[index])

    def _window(self, lines: Tensor) -> Window:
        lengths = self.lengths[lines]
        offsets = torch.arange(int(lengths.max()), device=lengths.device)  # (T,)
        mask = offsets < lengths[:, None]  # (B, T)
        positions = (self.starts[lines][:, None] + offsets).clamp(max=len(self.tokens) - 1)
        tokens = self.tokens[positions].long().where(mask, EOS_ID)
        conditions = None if self.conditions is None else self.conditions[lines]
        return Window(tokens, None if bool(mask.all()) else mask, positions, starts=True, conditions=conditions)


def _random(seed: int, epoch: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed * 1_000_003 + epoch)
