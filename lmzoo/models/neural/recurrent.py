"""Recurrent networks: Elman's RNN, the LSTM and the GRU.

As language models: Mikolov et al. (2010), "Recurrent neural network based language model". Cells: Elman (1990),
Hochreiter & Schmidhuber (1997), Cho et al. (2014). Dropout on non-recurrent connections only: Zaremba, Sutskever &
Vinyals (2014), https://arxiv.org/abs/1409.2329. Tied input and output embeddings: Press & Wolf (2017), Inan et al.
(2017).
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.options import Depth, Dropout, NonNegative, Size
from lmzoo.core.registry import models
from lmzoo.corpus import Corpus
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.models.neural.output import FORMER_NAMES, Output
from lmzoo.models.neural.pretrained import Pretrained
from lmzoo.protocol.model import LanguageModel, State


class RecurrentOptions(TypedDict):
    """The options of every recurrent network, whatever its word vectors are."""

    hidden: Size
    layers: Depth
    dropout: Dropout
    classes: Size | None
    init: NonNegative


class Recurrent(LanguageModel):
    """h_t = cell(E x_{t-1}, h_{t-1}); p(x_t | x_<t) = softmax(W h_t + b).

    The state is the last token, (B,), and then the memory of the cell: h, and c in an LSTM, (B, layers, hidden) each.

    Args:
        embedding: the size of E's rows, the word vectors; equal to ``hidden`` where tied.
        tied: whether W = E.
        embedding_from: word vectors that E starts from, a run or a file; see `Pretrained`.
        embedding_frozen: whether they stay as they are.
        hidden: the size of h_t.
        layers: how many cells are stacked.
        dropout: its rate before, between and after the layers.
        classes: how many word classes a two-level softmax has, see `WordClasses`; None for one softmax over all words.
        init: weights are drawn uniformly from ±init; biases start at zero.

    Raises: UserError for tied embeddings of another size than ``hidden``, and for more classes than words.
    """

    autocast = True
    former_names = FORMER_NAMES
    cell: type[nn.RNN] | type[nn.LSTM] | type[nn.GRU]

    def __init__(
        self,
        *,
        vocabulary_size: int,
        embedding: Size,
        tied: bool,
        embedding_from: str | None,
        embedding_frozen: bool,
        **options: Unpack[RecurrentOptions],
    ):
        super().__init__()
        hidden, layers, dropout, init = options["hidden"], options["layers"], options["dropout"], options["init"]
        if tied and embedding != hidden:
            raise UserError(
                f"model.tied=true needs model.embedding={embedding} and model.hidden={hidden} to be equal",
                "set one to the other, or tied=false",
            )
        self.vocabulary_size = vocabulary_size
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        between = dropout if layers > 1 else 0.0
        self.recurrent = self.cell(embedding, hidden, layers, batch_first=True, dropout=between)
        linear = nn.Linear(hidden, vocabulary_size)
        self.output = Output(self.embedding.weight if tied else linear.weight, linear.bias, options["classes"])
        self.dropout = nn.Dropout(dropout)
        for name, parameter in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.uniform_(parameter, -init, init)
        self.pretrained = Pretrained(embedding_from, embedding_frozen, self.embedding.weight)

    def estimate(self, corpus: Corpus) -> None:
        self.output.estimate(corpus.train)
        self.pretrained.estimate(corpus.vocabulary)

    def word_vectors(self) -> Mapping[str, Tensor]:
        return {"input": self.embedding.weight, "output": self.output.weight}

    def initial_state(self, batch_size: int) -> State:
        last = torch.full((batch_size,), EOS_ID, device=self.device)
        shape = (batch_size, self.recurrent.num_layers, self.recurrent.hidden_size)
        parts = 2 if isinstance(self.recurrent, nn.LSTM) else 1
        return (last, *(self.output.weight.new_zeros(shape) for _ in range(parts)))

    def _cell_precision(self) -> AbstractContextManager[Any]:
        """Under autocast: keep the cells in float32 where they cannot run in bfloat16.

        On CUDA, autocast would run cuDNN's cells in float16, which needs a scaled loss. On a CPU without AVX-512,
        oneDNN has no bfloat16 cells.
        """
        device = self.device.type
        able = device != "cuda" and (device != "cpu" or torch.ops.mkldnn._is_mkldnn_bf16_supported())
        return nullcontext() if able else torch.autocast(device, enabled=False)

    def _advance(self, inputs: Tensor, memory: State) -> tuple[Tensor, State]:
        """(B, T) input tokens and (B, layers, hidden) memory -> (B, T, hidden) and the memory after them."""
        parts = [part.transpose(0, 1).contiguous() for part in memory]  # (layers, B, hidden) each
        embedded = self.dropout(self.embedding(inputs))  # (B, T, embedding)
        with self._cell_precision():
            hidden, after = self.recurrent(embedded, tuple(parts) if len(parts) > 1 else parts[0])
        after = after if isinstance(after, tuple) else (after,)
        return self.dropout(hidden), tuple(part.transpose(0, 1) for part in after)

    def vectors(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(B, T) tokens and the state before them -> the (B, T, hidden) h that predict them, the state after them."""
        last, *memory = state
        inputs = torch.cat([last[:, None], tokens[:, :-1]], dim=1)  # (B, T)
        hidden, memory = self._advance(inputs, tuple(memory))
        return hidden, (tokens[:, -1], *memory)

    def next_vector(self, state: State) -> Tensor:
        """The (B, hidden) h that predicts the next token."""
        last, *memory = state
        return self._advance(last[:, None], tuple(memory))[0][:, 0]

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        hidden, after = self.vectors(tokens, state)
        return self.output(hidden.flatten(0, 1), tokens.flatten()).view(tokens.shape), after

    def predict(self, state: State) -> Tensor:
        return self.output.predict(self.next_vector(state))


@models.register("rnn")
class RNN(Recurrent):
    """Elman (1990), h_t = tanh(W x_t + U h_{t-1} + b)."""

    cell = nn.RNN


@models.register("lstm")
class LSTM(Recurrent):
    """Hochreiter & Schmidhuber (1997), with the forget gate of Gers et al. (2000)."""

    cell = nn.LSTM


@models.register("gru")
class GRU(Recurrent):
    """Cho et al. (2014)."""

    cell = nn.GRU
