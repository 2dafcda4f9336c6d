"""Recurrent networks: Elman's RNN, the LSTM and the GRU.

As language models: Mikolov et al. (2010), "Recurrent neural network based language model". Cells: Elman (1990),
Hochreiter & Schmidhuber (1997), Cho et al. (2014). Dropout on non-recurrent connections only: Zaremba, Sutskever &
Vinyals (2014), https://arxiv.org/abs/1409.2329. Tied input and output embeddings: Press & Wolf (2017), Inan et al.
(2017).
"""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.options import Depth, Dropout, NonNegative, Size, Source
from lmzoo.core.registry import models
from lmzoo.corpus import Corpus
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.models.neural.initialisation import initialise
from lmzoo.models.neural.output import FORMER_NAMES, Output
from lmzoo.models.neural.pretrained import Pretrained
from lmzoo.models.neural.regularisers import PLAIN, Dropping, Recipe, Stack, activation_penalty, drop_words, needs_stack
from lmzoo.models.neural.softmaxes import MixtureOfSoftmaxes
from lmzoo.protocol.condition import Conditioned
from lmzoo.protocol.model import State
from lmzoo.words.clusters import Clustering


class RecurrentOptions(TypedDict):
    """The options of every recurrent network, whatever its word vectors are."""

    hidden: Size
    layers: Depth
    dropout: Dropout
    classes: Size | None
    clustering: Clustering
    init: NonNegative


class NetworkOptions(RecurrentOptions, Recipe):
    """The options of a recurrent network and of its regularisers."""

    vocabulary_size: int
    embedding: Size
    tied: bool
    embedding_from: Source | None
    embedding_frozen: bool


class Recurrent(Conditioned):
    """h_t = cell(E x_{t-1}, h_{t-1}); p(x_t | x_<t) = softmax(W h_t + b).

    The state is the last token, (B,), and then the memory of the cell: h, and c in an LSTM, (B, layers, hidden) each,
    or what a `Stack` has; and then the condition of a `Conditioned` model.

    Args:
        embedding: the size of E's rows, the word vectors; tied, the last layer's, unless softmaxes are mixed.
        tied: whether W = E.
        embedding_from: word vectors that E starts from, a run or a file; see `Pretrained`.
        embedding_frozen: whether they stay as they are.
        hidden: the size of h_t.
        layers: how many cells are stacked.
        dropout: its rate before, between and after the layers.
        classes: how many word classes a two-level softmax has, see `WordClasses`; None for one softmax over all words.
        clustering: how they are found: see `word_clusters`.
        init: weights are drawn uniformly from ±init; biases start at zero.
        recipe: the regularisers, see `Recipe`.

    Raises: UserError for tied embeddings of another size than the last layer, for more classes than words, for classes
        where softmaxes are mixed, and for recurrent weights of gates that begin as those of states.
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
        embedding_from: Source | None,
        embedding_frozen: bool,
        recipe: Recipe = PLAIN,
        **options: Unpack[RecurrentOptions],
    ):
        super().__init__()
        last, dropout, init = recipe["last"] or options["hidden"], options["dropout"], options["init"]
        mixed = recipe["softmaxes"] > 1
        if tied and not mixed and embedding != last:
            size = "hidden" if recipe["last"] is None else "last"
            raise UserError(
                f"model.tied=true needs model.embedding={embedding} and model.{size}={last} to be equal",
                "set one to the other, or model.tied=false",
            )
        if mixed and options["classes"] is not None:
            raise UserError("model.softmaxes mixes softmaxes over all words", "set model.classes=null or softmaxes=1")
        if recipe["init_recurrent"] in ("identity", "graded") and not issubclass(self.cell, nn.RNN):
            raise UserError(f"model.init_recurrent={recipe['init_recurrent']} is for model=rnn, which has no gates",
                            "choose orthogonal or null")  # fmt: skip
        self.vocabulary_size, self.recipe, self.activity = vocabulary_size, recipe, 0.0
        self.embedding = nn.Embedding(vocabulary_size, embedding)
        self.recurrent = self._network(embedding, options, recipe)
        linear = nn.Linear(embedding if mixed else last, vocabulary_size)
        weight = self.embedding.weight if tied else linear.weight
        self.output: Output | MixtureOfSoftmaxes
        if mixed:
            self.output = MixtureOfSoftmaxes(weight, linear.bias, last, recipe["softmaxes"])
        else:
            self.output = Output(weight, linear.bias, options["classes"], options["clustering"])
        before = recipe["dropout_input"]
        self.dropout_input = Dropping(dropout if before is None else before, recipe["locked"])
        self.dropout = Dropping(dropout, recipe["locked"])
        for name, parameter in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.uniform_(parameter, -init, init)
        if start := recipe["init_recurrent"]:
            for name, parameter in self.recurrent.named_parameters():
                if "weight_hh" in name:
                    initialise(parameter, start)
        self.pretrained = Pretrained(embedding_from, embedding_frozen, self.embedding.weight)

    def _network(self, embedding: int, options: RecurrentOptions, recipe: Recipe) -> nn.RNNBase | Stack:
        """The layers: PyTorch's own where they do."""
        hidden, layers, between = options["hidden"], options["layers"], recipe["dropout_between"]
        between = options["dropout"] if between is None else between
        if not needs_stack(recipe):
            between = between if layers > 1 else 0.0
            return self.cell(embedding, hidden, layers, batch_first=True, dropout=between)
        sizes = [embedding, *[hidden] * (layers - 1), recipe["last"] or hidden]
        dropping = Dropping(between, recipe["locked"])
        return Stack(self.cell, sizes, dropping, recipe["weight_drop"], recipe["residual"])

    def estimate(self, corpus: Corpus) -> None:
        super().estimate(corpus)
        self.output.estimate(corpus.splits["train"])
        self.pretrained.estimate(corpus.vocabulary)

    def word_vectors(self) -> Mapping[str, Tensor]:
        return {"input": self.embedding.weight, "output": self.output.weight}

    def initial_state(self, batch_size: int) -> State:
        last = torch.full((batch_size,), EOS_ID, device=self.device)
        network = self.recurrent
        shape = [sum(network.sizes[1:])] if isinstance(network, Stack) else [network.num_layers, network.hidden_size]
        parts = 2 if self.cell is nn.LSTM else 1
        memory = (self.output.weight.new_zeros(batch_size, *shape) for _ in range(parts))
        return (last, *memory, *self.first_condition(batch_size))

    def _in_cells(self, embedded: Tensor, memory: State) -> tuple[Tensor, State]:
        """`_run`; under autocast in float32 where the cells cannot run in bfloat16, whatever another device saved.

        On CUDA, autocast would run cuDNN's cells in float16, which needs a scaled loss. On a CPU without AVX-512,
        oneDNN has no bfloat16 cells.
        """
        device = self.device.type
        if device != "cuda" and (device != "cpu" or torch.ops.mkldnn._is_mkldnn_bf16_supported()):
            return self._run(embedded, memory)
        kind = self.embedding.weight.dtype
        with torch.autocast(device, enabled=False):
            return self._run(embedded.to(kind), tuple(part.to(kind) for part in memory))

    def _advance(self, inputs: Tensor, memory: State) -> tuple[Tensor, State]:
        """(B, T) input tokens and the memory before them -> (B, T, hidden), no dropout yet, and the memory after."""
        embedded = self.embedding(inputs)  # (B, T, embedding)
        if self.training and self.recipe["dropout_words"]:
            embedded = drop_words(embedded, inputs, self.vocabulary_size, self.recipe["dropout_words"])
        own = len(memory) - (self.condition_vectors is not None)
        memory, condition = memory[:own], memory[own:]
        embedded = self.joined(self.dropout_input(embedded), condition)
        hidden, after = self._in_cells(embedded, memory)
        return hidden, (*after, *condition)

    def _run(self, embedded: Tensor, memory: State) -> tuple[Tensor, State]:
        """The layers over (B, T, embedding) inputs."""
        if isinstance(self.recurrent, Stack):
            return self.recurrent(embedded, memory)
        parts = [part.transpose(0, 1).contiguous() for part in memory]  # (layers, B, hidden) each
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
        dropped, ar, tar = self.dropout(hidden), self.recipe["ar"], self.recipe["tar"]
        if self.training and (ar or tar):
            inside = (inputs != EOS_ID) | (tokens != EOS_ID)
            self.activity = activation_penalty(dropped, hidden, inside, ar, tar)
        return dropped, (tokens[:, -1], *memory)

    def next_vector(self, state: State) -> Tensor:
        """The (B, hidden) h that predicts the next token."""
        last, *memory = state
        return self.dropout(self._advance(last[:, None], tuple(memory))[0])[:, 0]

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        hidden, after = self.vectors(tokens, state)
        return self.output(hidden.flatten(0, 1), tokens.flatten()).view(tokens.shape), after

    def predict(self, state: State) -> Tensor:
        return self.output.predict(self.next_vector(state))


class Network(Recurrent):
    """A `Recurrent` network whose recipe is among its options."""

    def __init__(self, **options: Unpack[NetworkOptions]):
        recipe: Any = {name: options[name] for name in PLAIN}
        shared: Any = {name: value for name, value in options.items() if name not in PLAIN}
        super().__init__(recipe=recipe, **shared)


class Rectified(nn.RNN):
    """PyTorch's network of rectified linear units."""

    def __init__(self, *sizes: int, **options: Any):
        super().__init__(*sizes, nonlinearity="relu", **options)


@models.register("rnn")
class RNN(Network):
    """Elman (1990), h_t = f(W x_t + U h_{t-1} + b).

    Args:
        activation: f, tanh or max(0, x); Le, Jaitly & Hinton (2015).
    """

    cell = nn.RNN

    def __init__(self, *, activation: Literal["tanh", "relu"], **options: Unpack[NetworkOptions]):
        if activation == "relu":
            self.cell = Rectified
        super().__init__(**options)


@models.register("lstm")
class LSTM(Network):
    """Hochreiter & Schmidhuber (1997), with the forget gate of Gers et al. (2000)."""

    cell = nn.LSTM


@models.register("gru")
class GRU(Network):
    """Cho et al. (2014)."""

    cell = nn.GRU
