"""Recurrent networks: Elman's RNN, the LSTM and the GRU.

As language models: Mikolov et al. (2010), "Recurrent neural network based language model". Cells: Elman (1990),
Hochreiter & Schmidhuber (1997), Cho et al. (2014). Dropout on non-recurrent connections only: Zaremba, Sutskever &
Vinyals (2014), https://arxiv.org/abs/1409.2329. Tied input and output embeddings: Press & Wolf (2017), Inan et al.
(2017).
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lmzoo.core.errors import UserError
from lmzoo.core.options import Depth, Dropout, Initial, NonNegative, Size, configured
from lmzoo.corpus import Corpus
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.models.neural.output import MixtureOfSoftmaxes, Output, OutputOptions
from lmzoo.models.neural.pretrained import Pretrained, PretrainedOptions
from lmzoo.models.neural.regularisers import RegulariserOptions, Stack, activation_penalty, drop_words
from lmzoo.numerics.dropout import Dropping
from lmzoo.protocol.condition import Conditioned
from lmzoo.protocol.model import State, models

Start = Literal["orthogonal", "identity", "graded"]
"""Beginnings of U, by which h_{t-1} enters h_t.

- ``orthogonal``: Saxe, McClelland & Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear
  neural networks", ICLR 2014, https://arxiv.org/abs/1312.6120; each gate has a matrix of its own.
- ``identity``: Le, Jaitly & Hinton, "A simple way to initialize recurrent networks of rectified linear units", 2015,
  https://arxiv.org/abs/1504.00941.
- ``graded``: unit i keeps a share d_i of itself, from none to `KEPT`, so that memories are of all lengths from the
  beginning, and a little of all others. Units that keep 0.95 of themselves for good are those of Mikolov, Joulin,
  Chopra, Mathieu & Ranzato, "Learning longer memory in recurrent neural networks", 2015,
  https://arxiv.org/abs/1412.7753.
"""

KEPT = 0.95
"""The largest share, of which half is left after 13 steps."""

NOISE = 0.3
"""The spectral radius of the random part of a graded matrix."""


@torch.no_grad()
def initialise(weight: Tensor, start: Start) -> None:
    """Fill (gates · d, d) recurrent weights."""
    size = weight.shape[1]
    for gate in weight.split(size):
        if start == "orthogonal":
            nn.init.orthogonal_(gate)
        elif start == "identity":
            nn.init.eye_(gate)
        else:
            gate.normal_(0, NOISE / size**0.5).add_(torch.linspace(0, KEPT, size).diag())


class RecurrentOptions(RegulariserOptions, OutputOptions):
    hidden: Size = 200
    """size of h_t, the units per layer."""
    layers: Depth = 1
    """number of layers."""
    last: Size | None = None
    """size of the last layer, such as that of tied embeddings below larger layers; None: hidden."""
    residual: bool = False
    """whether layers of equal input and output size have residual connections; He et al. (2016)."""
    dropout: Dropout = 0.3
    """dropout rate before, between and after the layers."""
    softmaxes: Size = 1
    """number of softmaxes, mixed with weights that depend on the history, see `MixtureOfSoftmaxes`; Yang et al.
    (2018)."""
    init: Annotated[NonNegative, Initial()] = 0.1
    """weights are initialized uniformly in ±init, biases with 0."""
    init_recurrent: Annotated[Start | None, Initial()] = None
    """initialization of recurrent weights: orthogonal, for each gate; identity, so that states persist; graded, so that
    units keep 0 to 0.95 of their value, for memories of all lengths. See `Start`; the last two are for networks without
    gates. None: as other weights."""


class NetworkOptions(RecurrentOptions, PretrainedOptions):
    embedding: Size | None = None
    """size of the word embeddings, E's rows; None: that of the last layer, as tied embeddings require unless softmaxes
    are mixed."""
    tied: bool = True
    """whether W = E: tied input and output embeddings, which requires, unless softmaxes are mixed, that the last layer
    has their size."""


class Recurrent(Conditioned):
    """h_t = cell(E x_{t-1}, h_{t-1}); p(x_t | x_<t) = softmax(W h_t + b).

    The state is the last token, (B,), and then the memory of the cell: h, and c in an LSTM, (B, layers, hidden) each,
    or what a `Stack` has; and then the condition of a `Conditioned` model.

    Raises: UserError for tied embeddings of another size than the last layer, for one layer whose ``last`` is not
        ``hidden``, for more classes than words, for classes where softmaxes are mixed, and for recurrent weights of
        gates that begin as those of states.
    """

    autocast = True
    cell: Callable[..., nn.RNNBase]
    """PyTorch's network of such cells."""

    @configured(NetworkOptions)
    def __init__(self, vocabulary_size: int, options: NetworkOptions):
        super().__init__()
        tied, dropout, init = options.tied, options.dropout, options.init
        last, mixed = options.last or options.hidden, options.softmaxes > 1
        embedding = options.embedding or last
        if options.layers == 1 and last != options.hidden:
            problem = f"model.last={last}: the only layer has model.hidden={options.hidden} units"
            raise UserError(problem, "leave it out")
        if tied and not mixed and embedding != last:
            size = "hidden" if options.last is None else "last"
            raise UserError(
                f"model.tied=true needs model.embedding={embedding} and model.{size}={last} to be equal",
                "set one to the other, or model.tied=false",
            )
        if mixed and options.classes is not None:
            raise UserError("model.softmaxes mixes softmaxes over all words", "set model.classes=null or softmaxes=1")
        start = options.init_recurrent
        if start in ("identity", "graded") and self.cell in (nn.LSTM, nn.GRU):
            raise UserError(f"model.init_recurrent={start} is for model=rnn, which has no gates",
                            "choose orthogonal or null")  # fmt: skip
        self.vocabulary_size, self.options, self.activity = vocabulary_size, options, 0.0
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        between = dropout if options.dropout_between is None else options.dropout_between
        hidden, layers = options.hidden, options.layers
        self.recurrent: nn.RNNBase | Stack
        if options.locked or options.weight_drop or options.residual or options.last:
            sizes, dropping = [embedding, *[hidden] * (layers - 1), last], Dropping(between, options.locked)
            self.recurrent = Stack(self.cell, sizes, dropping, options.weight_drop, options.residual)
        else:
            between = between if layers > 1 else 0.0
            self.recurrent = self.cell(embedding, hidden, layers, batch_first=True, dropout=between)
        linear = nn.Linear(embedding if mixed else last, vocabulary_size)
        weight = self.embedding.weight if tied else linear.weight
        self.output: Output
        if mixed:
            self.output = MixtureOfSoftmaxes(weight, linear.bias, last, options.softmaxes)
        else:
            self.output = Output(weight, linear.bias, options.classes, options.clustering)
        before = options.dropout_input
        self.dropout_input = Dropping(dropout if before is None else before, options.locked)
        self.dropout = Dropping(dropout, options.locked)
        for name, parameter in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.uniform_(parameter, -init, init)
        if start:
            for name, parameter in self.recurrent.named_parameters():
                if "weight_hh" in name:
                    initialise(parameter, start)
        self.pretrained = Pretrained(options.embedding_from, options.embedding_frozen, self.embedding.weight)

    def estimate(self, corpus: Corpus) -> None:
        super().estimate(corpus)
        self.output.estimate(corpus.splits["train"])
        self.pretrained.estimate(corpus.vocabulary.words)

    def word_vectors(self) -> Mapping[str, Tensor]:
        return {"input": self.embedding.weight, "output": self.output.weight}

    def initial_state(self, batch_size: int) -> State:
        last = torch.full((batch_size,), EOS_ID, device=self.device)
        network = self.recurrent
        shape = [sum(network.sizes[1:])] if isinstance(network, Stack) else [network.num_layers, network.hidden_size]
        parts = 2 if self.cell is nn.LSTM else 1
        memory = (self.output.weight.new_zeros(batch_size, *shape) for _ in range(parts))
        return (last, *memory, *self.first_condition(batch_size))

    def _advance(self, inputs: Tensor, memory: State) -> tuple[Tensor, State]:
        """(B, T) input tokens and the memory before them -> (B, T, hidden), no dropout yet, and the memory after."""
        embedded = self.embedding(inputs)  # (B, T, embedding)
        if self.training and self.options.dropout_words:
            embedded = drop_words(embedded, inputs, self.vocabulary_size, self.options.dropout_words)
        parts = len(memory) - (self.condition_vectors is not None)
        memory, condition = memory[:parts], memory[parts:]
        embedded = self.add_condition(self.dropout_input(embedded), condition)
        hidden, after = self._run(embedded, memory)
        return hidden, (*after, *condition)

    def _run(self, embedded: Tensor, memory: State) -> tuple[Tensor, State]:
        """The layers over (B, T, embedding) inputs; under autocast in float32 where the cells have no bfloat16.

        On CUDA, autocast would run cuDNN's cells in float16, which needs a scaled loss. On a CPU without AVX-512,
        oneDNN has no bfloat16 cells. The memory may have been saved by a device that has them.
        """
        device, kind = self.embedding.weight.device.type, self.embedding.weight.dtype
        whole = device == "cuda" or (device == "cpu" and not torch.ops.mkldnn._is_mkldnn_bf16_supported())
        if whole:
            embedded, memory = embedded.to(kind), tuple(part.to(kind) for part in memory)
        with torch.autocast(device, enabled=False) if whole else nullcontext():
            if isinstance(self.recurrent, Stack):
                return self.recurrent(embedded, memory)
            parts = [part.transpose(0, 1).contiguous() for part in memory]  # (layers, B, hidden) each
            one = embedded.shape[1] == 1 and not (self.training or torch.is_grad_enabled())
            if one and isinstance(self.recurrent, nn.LSTM):
                return _step(self.recurrent, embedded[:, 0], *parts)
            hidden, after = self.recurrent(embedded, tuple(parts) if len(parts) > 1 else parts[0])
        after = after if isinstance(after, tuple) else (after,)
        return hidden, tuple(part.transpose(0, 1) for part in after)

    def penalty(self) -> Tensor | float:
        """That of the activations of the last window, see `activation_penalty`.

        Those that predict `<eos>` after `<eos>`, which is padding or an empty line, have no part in it.
        """
        penalty, self.activity = self.activity, 0.0
        return penalty

    def vectors(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """(B, T) tokens and the state before them -> the (B, T, hidden) h that predict them, the state after them."""
        last, *memory = state
        inputs = torch.cat([last[:, None], tokens[:, :-1]], dim=1)  # (B, T)
        hidden, memory = self._advance(inputs, tuple(memory))
        dropped, ar, tar = self.dropout(hidden), self.options.ar, self.options.tar
        if self.training and (ar or tar):
            inside = (inputs != EOS_ID) | (tokens != EOS_ID)
            self.activity = activation_penalty(dropped, hidden, inside, ar, tar)
        return dropped, (tokens[:, -1], *memory)

    def next_vector(self, state: State) -> tuple[Tensor, State]:
        """The (B, hidden) h that predicts the next token, and the memory after the last one."""
        last, *memory = state
        hidden, memory = self._advance(last[:, None], tuple(memory))
        return self.dropout(hidden)[:, 0], memory

    def embed(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T) tokens, a sentence a row -> (B, T, hidden) h after each, of unit length; later ones do not count."""
        last, *memory = self.initial_state(len(tokens))
        hidden, _ = self._advance(torch.cat([last[:, None], tokens], 1), tuple(memory))  # (B, T + 1, hidden)
        return F.normalize(hidden[:, 1:], dim=2)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        hidden, after = self.vectors(tokens, state)
        return self.output(hidden.flatten(0, 1), tokens.flatten()).view(tokens.shape), after

    def predict(self, state: State) -> Tensor:
        return self.begin_step(state)[0]

    def begin_step(self, state: State) -> tuple[Tensor, State]:
        vector, memory = self.next_vector(state)
        return self.output.predict(vector), memory

    def end_step(self, tokens: Tensor, begun: State) -> State:
        return tokens, *begun


def _step(network: nn.LSTM, hidden: Tensor, *memory: Tensor) -> tuple[Tensor, State]:
    """The layers over one (B, embedding) input by PyTorch's cells; oneDNN's would pack the weights anew each time."""
    cells = []
    for weights, *before in zip(network.all_weights, *memory, strict=True):
        cells.append(torch.lstm_cell(hidden, before, *weights))
        hidden = cells[-1][0]
    return hidden[:, None], tuple(torch.stack(part, 1) for part in zip(*cells, strict=True))


class RNNOptions(NetworkOptions):
    activation: Literal["tanh", "relu"] = "tanh"
    """f, tanh or max(0, x); Le, Jaitly & Hinton (2015)."""


@models.register("rnn")
class RNN(Recurrent):
    """Recurrent network, Elman (1990): h_t = f(W x_t + U h_{t-1} + b)."""

    cell = nn.RNN

    @configured(RNNOptions)
    def __init__(self, vocabulary_size: int, options: RNNOptions):
        if options.activation == "relu":
            self.cell = partial(nn.RNN, nonlinearity="relu")
        super().__init__(vocabulary_size, **options.inherited(NetworkOptions))


@models.register("lstm")
class LSTM(Recurrent):
    """Long short-term memory, Hochreiter & Schmidhuber (1997), with the forget gate of Gers et al. (2000)."""

    cell = nn.LSTM


@models.register("gru")
class GRU(Recurrent):
    """Gated recurrent unit, Cho et al. (2014)."""

    cell = nn.GRU
