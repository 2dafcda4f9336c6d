"""Lines of a text, each terminated by `<eos>`, and relative frequencies of words."""

import torch
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID


def log2_shares(tokens: Tensor, vocabulary_size: int) -> Tensor:
    """(V,) float64 log2 relative frequencies in a (N,) text, with add-one smoothing: (c + 1) / (N + V)."""
    counts = tokens.bincount(minlength=vocabulary_size)
    return ((counts + 1).double() / (len(tokens) + vocabulary_size)).log2()


def line_numbers(tokens: Tensor) -> Tensor:
    """(N,) tokens -> (N,) line number of each token, from 0."""
    ends = tokens == EOS_ID
    return ends.cumsum(0).sub_(ends.long())


def by_line(values: Tensor, tokens: Tensor) -> list[Tensor]:
    """(N, …) values of the tokens of a text -> a list of (n, …) values of each line, `<eos>` included."""
    return list(values.tensor_split((tokens == EOS_ID).nonzero()[:, 0] + 1)[:-1])


def line_lengths(tokens: Tensor) -> Tensor:
    """(N,) tokens of terminated lines -> (lines,) number of tokens of each, `<eos>` included."""
    ends = (tokens == EOS_ID).nonzero()[:, 0]
    return ends.diff(prepend=ends.new_full((1,), -1))


def line_sums(values: Tensor, tokens: Tensor) -> Tensor:
    """(N, …) floating-point values of the tokens of a text of terminated lines -> (lines, …) sums over each line."""
    if not len(tokens):  # which segment_reduce refuses
        return values
    return torch.segment_reduce(values, "sum", lengths=line_lengths(tokens).to(values.device))
