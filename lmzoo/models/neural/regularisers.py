"""What keeps a recurrent network from learning its text by heart: the parts of AWD-LSTM.

Merity, Keskar & Socher, "Regularizing and optimizing LSTM language models", ICLR 2018,
https://arxiv.org/abs/1708.02182, where nothing else is named.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Annotated

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lmzoo.core.options import Dropout, Idle, NonNegative, Options
from lmzoo.numerics.dropout import dropout
from lmzoo.protocol.model import State


class RegulariserOptions(Options):
    """What is dropped and penalised in a recurrent network."""

    locked: bool = False
    """whether dropout has one mask for all steps of a window, before, between and after the layers; Gal & Ghahramani
    (2016)."""
    dropout_input: Dropout | None = None
    """dropout rate before the layers; None: ``dropout``."""
    dropout_between: Annotated[Dropout | None, Idle(("model.layers", 1))] = None
    """dropout rate between the layers; None: ``dropout``."""
    dropout_words: Dropout = 0.0
    """embedding dropout: rate at which a word type is dropped throughout a window; Gal & Ghahramani (2016)."""
    weight_drop: Dropout = 0.0
    """dropout rate of recurrent weights, with one mask for all steps of a window, so that it acts from the second step
    on; Wan et al. (2013)."""
    ar: NonNegative = 0.0
    """α of the penalty on large outputs, see `activation_penalty`; padding and empty lines are excluded."""
    tar: NonNegative = 0.0
    """β of the penalty on changes of outputs between steps."""


def drop_words(vectors: Tensor, tokens: Tensor, words: int, rate: float) -> Tensor:
    """(B, T, d) vectors of (B, T) tokens, of which some words have none; the others grow in proportion."""
    return vectors * dropout(vectors.new_ones(words, 1), rate)[tokens]


def activation_penalty(dropped: Tensor, hidden: Tensor, inside: Tensor, ar: float, tar: float) -> Tensor:
    """α mean (m ∘ h)² + β mean (h_t − h_{t-1})², of (B, T, d) outputs h, with dropout first and without.

    The means are over the h_t that are ``inside``, (B, T) bool. Merity, McCann & Socher, "Revisiting activation
    regularization for language RNNs", 2017, https://arxiv.org/abs/1708.01009
    """
    return ar * _mean_square(dropped.float(), inside) + tar * _mean_square(hidden.float().diff(dim=1), inside[:, 1:])


def _mean_square(vectors: Tensor, inside: Tensor) -> Tensor:
    return (vectors.square().mean(2) * inside).sum() / inside.sum().clamp(min=1)


class Stack(nn.Module):
    """Recurrent layers of any sizes, one above the other.

    The memory is (B, Σ sizes) for each part of a cell's memory, the lowest layer first.

    Args:
        cell: PyTorch's network, of which each layer is one.
        sizes: of the input and of each layer.
        between: dropout between the layers.
    """

    def __init__(
        self, cell: Callable[..., nn.RNNBase], sizes: list[int], between: nn.Module, weight_drop: float, residual: bool
    ):
        super().__init__()
        self.cells = nn.ModuleList(cell(size, after, batch_first=True) for size, after in pairwise(sizes))
        self.parts = 2 if cell is nn.LSTM else 1
        self.sizes, self.between = sizes, between
        self.weight_drop, self.residual = weight_drop, residual

    def forward(self, vectors: Tensor, memory: State) -> tuple[Tensor, State]:
        """(B, T, d) inputs and the memory before them -> the (B, T, size) outputs and the memory after them."""
        after = []
        layers = zip(*(part.split(self.sizes[1:], dim=1) for part in memory), strict=True)
        for number, (cell, before) in enumerate(zip(self.cells, layers, strict=True)):
            inputs = self.between(vectors) if number else vectors
            start = tuple(part[None].contiguous() for part in before)
            weights = {}  # with some dropped; they stay whole in the cell itself
            if self.training and self.weight_drop:
                weights = {"weight_hh_l0": dropout(cell.get_parameter("weight_hh_l0"), self.weight_drop)}
            outputs, now = functional_call(cell, weights, (inputs, start if self.parts > 1 else start[0]))
            vectors = outputs + inputs if self.residual and outputs.shape == inputs.shape else outputs
            after.append(now if self.parts > 1 else (now,))
        return vectors, tuple(torch.cat([part[0] for part in parts], 1) for parts in zip(*after, strict=True))
