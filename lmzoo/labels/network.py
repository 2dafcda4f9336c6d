"""The network of a bidirectional tagger: words and letters, recurrent layers, scores of labels of words or texts.

Ma & Hovy, "End-to-end sequence labeling via bi-directional LSTM-CNNs-CRF", ACL 2016,
https://aclanthology.org/P16-1101; words that occur once in train are randomly replaced in training by the unknown
word, as in Lample et al., "Neural architectures for named entity recognition", NAACL 2016.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lmzoo.labels.chain import Scores
from lmzoo.models.neural.recurrent import GRU, LSTM, RNN
from lmzoo.numerics.dropout import Dropping, dropout
from lmzoo.numerics.sparse import SparseRows

CELLS = {"rnn": RNN.cell, "gru": GRU.cell, "lstm": LSTM.cell}

Pooling = Literal["last", "mean", "max"]
"""The pooling of a text's states: the last state of each direction, or the mean or maximum of each component."""

WIDTH = 3
"""The width of filters in letters."""


class Inputs(NamedTuple):
    """B sentences of at most T words; index 0 is padding, 1 is unknown."""

    columns: list[Tensor]
    """(B, T) each: words, and further columns."""
    letters: Tensor
    """(U, L) letters of the U distinct words of the sentences."""
    spelling: Tensor
    """(B, T) index of each word among them."""
    lengths: Tensor
    """(B,)."""
    rows: SparseRows | None = None
    """The lexical features of the words of all sentences, if the network has any."""


class Network(nn.Module):
    """Embeddings -> bidirectional recurrent layers -> (B, T, K) scores, and scores of transitions.

    With ``pooling`` the scores are of texts, as chains of length one: (B, 1, K).

    Args:
        sizes: the numbers of words, of entries of each other column, and of letters.
        labels: K.
        features: the number of lexical features, which have weights with each label and are subject to dropout.
        crf: whether transitions are scored; if not, their scores are 0.
        others: as in `lmzoo.labels.birnn.BiRNN`.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        labels: int,
        features: int = 0,
        *,
        cell: Literal["rnn", "gru", "lstm"],
        embedding: int,
        column: int,
        filters: int,
        hidden: int,
        layers: int,
        dropout: float,
        crf: bool,
        pooling: Pooling | None,
    ):
        super().__init__()
        self.pooling: Pooling | None = pooling
        *columns, letters = sizes
        dimensions = [embedding, *(column for _ in columns[1:])]
        self.embeddings = nn.ModuleList(map(_embedding, columns, dimensions))
        self.letters = _embedding(letters, filters) if filters else None
        self.filters = nn.Conv1d(filters, filters, WIDTH, padding=WIDTH // 2) if filters else None
        self.dropout = Dropping(dropout, locked=True)
        between = dropout if layers > 1 else 0.0
        self.recurrent = CELLS[cell](
            sum(dimensions) + filters, hidden, layers, batch_first=True, dropout=between, bidirectional=True
        )
        self.output = nn.Linear(2 * hidden, labels)
        self.lexical = nn.Parameter(torch.zeros(features, labels)) if features else None
        self.moves = nn.Parameter(torch.zeros(labels, labels), requires_grad=crf)
        self.first = nn.Parameter(torch.zeros(labels), requires_grad=crf)

    def spelled(self, letters: Tensor) -> Tensor:
        """(U, L) letters of words -> (U, filters), the maximum of each filter over the word."""
        assert self.letters is not None
        assert self.filters is not None
        outputs = self.filters(self.letters(letters).mT)  # (U, filters, L)
        return outputs.masked_fill((letters == 0)[:, None], -torch.inf).amax(2)

    def forward(self, inputs: Inputs) -> Scores:
        parts = [embed(column) for embed, column in zip(self.embeddings, inputs.columns, strict=True)]
        if self.letters is not None:
            parts.append(self.spelled(inputs.letters)[inputs.spelling])
        vectors = self.dropout(torch.cat(parts, 2))
        packed = pack_padded_sequence(vectors, inputs.lengths.cpu(), batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.recurrent(packed)[0], batch_first=True)
        lengths = inputs.lengths
        if self.pooling is not None:
            hidden, lengths = pooled(hidden, lengths, self.pooling)[:, None], torch.ones_like(lengths)
        emission = self.output(self.dropout(hidden))
        if self.lexical is not None:
            assert inputs.rows is not None
            mask = dropout(self.lexical.new_ones(len(inputs.rows.columns)), self.dropout.rate, self.training)
            words = (inputs.rows._replace(values=mask) @ self.lexical).split(lengths.tolist())
            emission = emission + nn.utils.rnn.pad_sequence([*words], batch_first=True)
        return Scores(emission, self.moves, self.first, lengths)


def pooled(hidden: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
    """(B, T, 2 d) states of both directions, and (B,) lengths of texts -> (B, 2 d) vectors of the texts."""
    if pooling == "last":
        forward, backward = hidden.chunk(2, 2)
        return torch.cat([forward[torch.arange(len(lengths), device=lengths.device), lengths - 1], backward[:, 0]], 1)
    padding = (torch.arange(hidden.shape[1], device=lengths.device) >= lengths[:, None])[:, :, None]
    if pooling == "mean":
        return hidden.masked_fill(padding, 0).sum(1) / lengths[:, None]
    return hidden.masked_fill(padding, -torch.inf).amax(1)


def _embedding(number: int, size: int) -> nn.Embedding:
    """An embedding with components of variance 1 / size, and 0 for padding."""
    embedding = nn.Embedding(number, size, padding_idx=0)
    nn.init.uniform_(embedding.weight, -((3 / size) ** 0.5), (3 / size) ** 0.5)
    with torch.no_grad():
        embedding.weight[0] = 0
    return embedding
