"""The interface of language models."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.registry import Registry
from lmzoo.corpus import Corpus

models = Registry("model")


def takes_steps(options: Mapping[str, Any]) -> bool:
    """What a registered model's `LanguageModel.takes_steps` says of options; True of a function and of no entry."""
    said = getattr(models.entries.get(options["name"]), "takes_steps", True)
    return options.get(said[0]) == said[1] if isinstance(said, tuple) else said


State = tuple[Tensor, ...]
"""The state of a model between windows; its contents are private to the model.

The first dimension of every tensor is the batch; ``()`` is allowed.
"""


class Trained(NamedTuple):
    """A trained run from which a model is initialized."""

    folder: str
    options: Mapping[str, Any]
    """The options of the model, including its name."""
    model: "LanguageModel"
    """The model with its best weights, in evaluation mode."""


class LanguageModel(nn.Module, ABC):
    """p(x) = Π_t p(x_t | x_<t), scored window by window with an explicit state.

    A model scores the given tokens. The shift by one between input and target happens inside the model.
    So a Markov model looks up only the words of the text, and an HMM never builds (B, T, V).
    Constructors take ``vocabulary_size`` (V, with ``<eos>`` as word 0) and the model's options by keyword; see
    `lmzoo.core.options`.
    """

    autocast: bool = False
    """Whether `forward` supports bfloat16 autocast."""

    vocabulary_size: int

    forgets_at_eos: bool = False
    """Whether the prediction after `<eos>` equals that of `initial_state`, so that lines can be read as a stream."""

    whole_sentences: bool = False
    """Whether only sentences have a probability: `<eos>` has that of its sentence, other words 0 nats, and `predict`
    raises a UserError."""

    open_vocabulary: bool = False
    """Whether every word has a probability, and the vocabulary grows by those of the texts that are read, so that
    `predict` raises a UserError."""

    estimated_tensors: ClassVar[Sequence[str]] = ()
    """Names of tensors besides parameters that are learned from a text, such as counts; see `num_parameters`."""

    starts_from: tuple[str, Sequence[str]] | None = None
    """The option for trained runs to start from, and their folders; `inherit` receives the runs."""

    takes_steps: ClassVar[bool | tuple[str, Any]] = True
    """Whether the model is trained by gradient descent, so that it has parameters; or the value of an option, such as
    ``("gradient", True)``, with which it is."""

    _frozen_tables: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.register_forward_pre_hook(_check_arguments, with_kwargs=True)
        self.register_forward_hook(_check_result, with_kwargs=True)

    @abstractmethod
    def initial_state(self, batch_size: int) -> State:
        """The state just after a sentence boundary, for ``batch_size`` rows."""

    @abstractmethod
    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Score a window.

        Args:
            tokens: (B, T) int64 word indices, T >= 1.
            state: the state returned by `initial_state` or for the previous window.

        Returns:
            (B, T) log p(x_t | x_<t) in nats, and the state after the window's last token.
            Rows are independent, and a position does not depend on later ones. So padding at the end of
            a row needs no mask: its scores are ignored.

        Raises:
            ValueError: if tokens have the wrong shape or type, or a batch size unlike the state's; on a CPU also if a
                token is not in 0, …, V - 1.
        """

    @abstractmethod
    def predict(self, state: State) -> Tensor:
        """(B, V) log-probabilities of the next token in nats."""

    def begin_step(self, state: State) -> tuple[Tensor, State]:
        """`predict`, and the input of `end_step` for the next token; batch first, as in a state.

        The two halves of a step share computations of `predict` and `forward`.
        """
        return self.predict(state), state

    def end_step(self, tokens: Tensor, begun: State) -> State:
        """The state after (B,) tokens, given the second result of `begin_step`, or some of its rows."""
        return self(tokens[:, None], begun)[1]

    def inherit(self, trained: Sequence["Trained"]) -> None:
        """Initialize from the runs of `starts_from`, in their order; called before `estimate`."""

    def estimate(self, corpus: Corpus) -> None:
        """Estimate what is not trained by gradient from ``corpus.splits["train"]``: counts, clusters, closed forms."""

    def penalty(self) -> Tensor | float:
        """A regularizer in nats per token, added to the training loss but never to perplexity."""
        return 0.0

    def images(self, corpus: Corpus) -> Mapping[str, Tensor]:
        """Matrices to display after training, by name: (H, W) from 0 for black to 1 for white."""
        return {}

    def unlisted(self) -> Tensor:
        """(V,) bool on the CPU: words of the vocabulary that the model lacks, and reads as `<unk>`."""
        return torch.zeros(self.vocabulary_size, dtype=torch.bool)

    def word_vectors(self) -> Mapping[str, Tensor]:
        """Context-independent (V, d) vectors of words, by name.

        ``input``: of words as context. ``output``: of words as prediction. ``states``: of the hidden states that emit a
        word.
        """
        return {}

    def tables(self) -> Any:
        """Values computed from the parameters for every window, such as the distributions of an HMM; None: none."""
        return None

    def lasting_tables(self) -> Any:
        """`tables`, with further values that do not change between windows."""
        return self.tables()

    def current_tables(self) -> Any:
        """The tables computed when the model was `frozen`, else new ones."""
        return self.tables() if self._frozen_tables is None else self._frozen_tables

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """A context in which parameters do not change, so that tables are computed only once."""
        before = self._frozen_tables
        if before is None:
            with torch.no_grad():
                self._frozen_tables = self.lasting_tables()
        try:
            yield
        finally:
            self._frozen_tables = before

    @property
    def window_tokens(self) -> int:
        """The best number of tokens of a text to score at once; scores do not depend on it."""
        return 2048

    @property
    def device(self) -> torch.device:
        """The device of the parameters and buffers."""
        return next((t.device for t in chain(self.parameters(), self.buffers())), torch.device("cpu"))


def where_rows(which: Tensor, one: State, other: State) -> State:
    """Rows of one state where ``which`` (B,) is true, else of the other."""
    rows = [which.view(-1, *[1] * (part.ndim - 1)) for part in one]
    return tuple(map(torch.where, rows, one, other))


def num_parameters(model: nn.Module) -> int | None:
    """Number of learned parameters and table entries, submodels included; None if there are neither.

    Table entries are those of tensors in ``estimated_tensors``: for n-grams, probabilities and backoffs.
    """
    sizes = {}
    for module in model.modules():
        tables = [getattr(module, name) for name in getattr(module, "estimated_tensors", ())]
        sizes |= {id(tensor): tensor.numel() for tensor in [*module.parameters(recurse=False), *tables]}
    return sum(sizes.values()) or None


@contextmanager
def evaluating(model: LanguageModel) -> Iterator[None]:
    """A context with the model in evaluation mode and `frozen`; its mode is restored afterwards."""
    training = model.training
    model.eval()
    try:
        with model.frozen():
            yield
    finally:
        if training:
            model.train()


def _check_arguments(model: "LanguageModel", arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Validate the arguments of `forward`. Tokens are compared with V only on a CPU, to avoid GPU synchronization."""
    arguments_by_name = dict(zip(("tokens", "state"), arguments, strict=False)) | named
    if len(arguments_by_name) < 2:
        return  # Python reports the missing one
    tokens, state = arguments_by_name["tokens"], arguments_by_name["state"]
    if tokens.ndim != 2 or tokens.dtype != torch.int64 or not tokens.shape[1]:
        shape = tuple(tokens.shape)
        hint = "; tokens[None] is a batch of one" if tokens.ndim == 1 else ""
        raise ValueError(f"tokens must be (B, T) int64 with T of at least 1, not {shape} {tokens.dtype}{hint}")
    if not isinstance(state, tuple):
        found, kind = type(state).__name__, type(model).__name__
        raise UserError(f"the state is a {found}, not a tuple of tensors", f"correct initial_state of {kind}")
    if any(getattr(part, "ndim", 0) < 1 for part in state):
        problem = "the state has a part that is no tensor with a row for each text"
        raise UserError(problem, f"correct initial_state of {type(model).__name__}")
    batch = tokens.shape[0]
    if rows := [part.shape[0] for part in state if part.shape[0] != batch]:
        raise ValueError(f"the state is of {rows[0]} rows, the tokens of {batch}; initial_state({batch})?")
    if tokens.device.type == "cpu" and batch:
        low, high = map(int, tokens.aminmax())
        if low < 0 or high >= model.vocabulary_size:
            wrong = low if low < 0 else high
            raise ValueError(f"tokens: {wrong} is no word of 0 to {model.vocabulary_size - 1}")


def _check_result(model: LanguageModel, arguments: tuple[Any, ...], named: dict[str, Any], result: Any) -> None:
    """Raise a UserError if `forward` returns anything but the log p of its tokens and a state."""
    tokens, problem = arguments[0] if arguments else named["tokens"], None
    if not isinstance(result, tuple) or len(result) != 2:
        found = f"tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
        problem = f"a {found}, not a pair of log p and state"
    elif not isinstance(result[1], tuple):
        problem = f"a state that is a {type(result[1]).__name__}, not a tuple of tensors"
    elif (shape := tuple(getattr(result[0], "shape", ()))) != tuple(tokens.shape):
        problem = f"shape {shape}, not {tuple(tokens.shape)}, that of the tokens"
    if problem:
        raise UserError(f"forward returns {problem}", f"correct forward of {type(model).__name__}")
