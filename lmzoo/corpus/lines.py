"""The lines of a text, of which `<eos>` is the last token each, and the shares of its words."""

from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID


def log2_shares(tokens: Tensor, vocabulary_size: int) -> Tensor:
    """(V,) log2 of the share that each word has of a (N,) text, (c + 1) / (N + V); float64."""
    counts = tokens.bincount(minlength=vocabulary_size)
    return ((counts + 1).double() / (len(tokens) + vocabulary_size)).log2()


def line_numbers(tokens: Tensor) -> Tensor:
    """(N,) tokens -> (N,) the number of each token's line, from 0."""
    ends = (tokens == EOS_ID).long()
    return ends.cumsum(0) - ends


def by_line(values: Tensor, tokens: Tensor) -> list[Tensor]:
    """(N, …) numbers of the tokens of a text -> (n, …) those of each line, its `<eos>` included."""
    return list(values.tensor_split((tokens == EOS_ID).nonzero()[:, 0] + 1)[:-1])


def line_sums(values: Tensor, tokens: Tensor) -> Tensor:
    """(N, …) numbers of the tokens of a text whose last line is closed -> (n, …) their sums over each line."""
    sums = values.new_zeros(int((tokens == EOS_ID).sum()), *values.shape[1:])
    return sums.index_add_(0, line_numbers(tokens).to(values.device), values)
