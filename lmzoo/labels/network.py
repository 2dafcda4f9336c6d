"""The network of a bidirectional tagger: words and letters, recurrent layers, scores of labels of words or texts.

Ma & Hovy, "End-to-end sequence labeling via bi-directional LSTM-CNNs-CRF", ACL 2016,
https://aclanthology.org/P16-1101; words that occur once in train are randomly replaced in training by the unknown
word, as in Lample et al., "Neural architectures for named entity recognition", NAACL 2016.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lmzoo.core.options import Count, Depth, Dropout, Idle, NonNegative, Size, Source
from lmzoo.labels.chain import Scores
from lmzoo.labels.gradient import DescentOptions
from lmzoo.numerics.dropout import Dropping, dropout
from lmzoo.numerics.sparse import SparseRows

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


class BiRNNOptions(DescentOptions):
    epochs: Size = 12
    batch: Size = 1000
    """words per batch, padding included."""
    lr: NonNegative = 0.005
    cell: Literal["rnn", "gru", "lstm"] = "lstm"
    """type of the recurrent layers."""
    embedding: Size = 100
    """dimension of word embeddings."""
    column: Annotated[Size, Idle(("task.features", []))] = 32
    """dimension of the embeddings of each other column."""
    filters: Count = 50
    """number of convolution filters over the letters of a word; 0: no letters."""
    hidden: Size = 128
    """units per layer and direction."""
    layers: Depth = 1
    """number of recurrent layers."""
    dropout: Dropout = 0.5
    """dropout rate of inputs, between layers, and of outputs."""
    unknown: Dropout = 0.5
    """rate at which words that occur once in train are replaced by the unknown word."""
    crf: bool = False
    """whether a CRF layer scores transitions between labels."""
    pooling: Pooling | None = None
    """how the states of words are combined where each text has one label: last of each direction, or mean or maximum of
    each component. None: one label per word."""
    vectors: Source | None = None
    """a run of ``lmzoo vectors``, or a file of word vectors, to initialize embeddings; None: none."""
    clip: NonNegative = 5.0
    """maximum gradient norm."""
    lexical: Size | None = None
    """minimum count in train of the features of labeller=crf that score labels beside the network, as in Huang, Xu & Yu
    (2015), section 2.6; dropout applies to them. None: none do."""
    clusters: Source | None = None
    """a file of ``lmzoo cluster --paths`` for these features: path prefixes of words are features, too. None: none."""
    from_: Source | None = None
    """a run of a recurrent language model, to initialize word embeddings and layers of the forward direction; it must
    have the same cell and sizes. Words outside its vocabulary keep random embeddings. None: none."""


class Network(nn.Module):
    """Embeddings -> bidirectional recurrent layers -> (B, T, K) scores, and scores of transitions.

    With ``pooling`` the scores are of texts, as chains of length one: (B, 1, K).

    Args:
        sizes: the numbers of words, of entries of each other column, and of letters.
        labels: K.
        features: the number of lexical features, which have weights with each label and are subject to dropout.
        options: those of the labeller; without ``crf`` the scores of transitions are 0.
    """

    def __init__(self, sizes: Sequence[int], labels: int, features: int, options: BiRNNOptions):
        super().__init__()
        self.pooling: Pooling | None = options.pooling
        *columns, letters = sizes
        filters, dimensions = options.filters, [options.embedding, *(options.column for _ in columns[1:])]
        self.embeddings = nn.ModuleList(map(_embedding, columns, dimensions))
        self.letters = _embedding(letters, filters) if filters else None
        self.filters = nn.Conv1d(filters, filters, WIDTH, padding=WIDTH // 2) if filters else None
        self.dropout = Dropping(options.dropout, locked=True)
        between = options.dropout if options.layers > 1 else 0.0
        self.recurrent: nn.RNNBase = getattr(nn, options.cell.upper())(
            sum(dimensions) + filters, options.hidden, options.layers, batch_first=True, dropout=between,
            bidirectional=True,
        )  # fmt: skip
        self.output = nn.Linear(2 * options.hidden, labels)
        self.lexical = nn.Parameter(torch.zeros(features, labels)) if features else None
        self.moves = nn.Parameter(torch.zeros(labels, labels), requires_grad=options.crf)
        self.first = nn.Parameter(torch.zeros(labels), requires_grad=options.crf)

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
