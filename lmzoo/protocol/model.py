"""The protocol every language model of the zoo keeps."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from lmzoo.core.registry import Registry
from lmzoo.corpus import Corpus

models = Registry("model")


def takes_steps(options: Mapping[str, Any]) -> bool:
    """What a registered model's `LanguageModel.takes_steps` says of options; True of a function and of no entry."""
    said = getattr(models.entries.get(options["name"]), "takes_steps", None)
    return said is None or said(options)


State = tuple[Tensor, ...]
"""What a model remembers between windows. Only the model knows what is in it.

Every tensor has the batch as its first dimension; ``()`` is allowed.
"""


class Trained(NamedTuple):
    """A trained run that a model starts from."""

    folder: str
    options: Mapping[str, Any]
    """The options of its model, and the model's name."""
    model: "LanguageModel"
    """With its best weights, in evaluation mode."""


class LanguageModel(nn.Module, ABC):
    """p(x) = Π_t p(x_t | x_<t), scored window by window with an explicit state.

    A model scores the tokens that it is given. The shift by one between input and target happens inside the model.
    So a Markov model looks up only the words of the text, and an HMM never builds (B, T, V).
    Constructors take ``vocabulary_size`` (V, with ``<eos>`` as word 0) and the model's options by keyword; see
    `lmzoo.core.options`.
    """

    autocast: bool = False
    """Whether forward may run under bfloat16 autocast."""

    vocabulary_size: int

    forgets_at_eos: bool = False
    """Whether the state after `<eos>` predicts as `initial_state` does. Then lines can be read as a stream."""

    whole_sentences: bool = False
    """Whether only sentences have a probability: `<eos>` has that of its sentence, other words 0 nats, and `predict`
    is a UserError."""

    learnt: ClassVar[Sequence[str]] = ()
    """The tensors beside the parameters that are learnt from a text, such as counted tables; see `num_parameters`."""

    starts_from: tuple[str, Sequence[str]] | None = None
    """The option that names trained runs to start from, and their folders; `inherit` is given the runs."""

    _frozen_tables: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.register_forward_pre_hook(_check_arguments, with_kwargs=True)

    @classmethod
    def takes_steps(cls, options: Mapping[str, Any]) -> bool:
        """Whether a model of these options is trained by gradient descent: whether it has parameters."""
        return True

    @abstractmethod
    def initial_state(self, batch_size: int) -> State:
        """The state just after a sentence boundary, for ``batch_size`` rows."""

    @abstractmethod
    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Score a window.

        Args:
            tokens: (B, T) int64 word numbers, T >= 1.
            state: what `initial_state` or the previous window returned.

        Returns:
            (B, T) log p(x_t | x_<t) in nats, and the state after the window's last token.
            Rows are independent, and a position depends on no later one. So padding at the end of
            a row needs no mask: the caller ignores its scores.

        Raises:
            ValueError: where the tokens have another shape or type, or another batch size than the state; on a CPU
                also where a token is not in 0, …, V - 1.
        """

    @abstractmethod
    def predict(self, state: State) -> Tensor:
        """(B, V) log-probabilities of the next token in nats."""

    def begin_step(self, state: State) -> tuple[Tensor, State]:
        """`predict`, and what `end_step` needs once the next token is chosen; batch first, as a state.

        A step in two halves computes once what `predict` and `forward` would both compute.
        """
        return self.predict(state), state

    def end_step(self, tokens: Tensor, begun: State) -> State:
        """The state after (B,) tokens, given what `begin_step` returned, or some of its rows."""
        return self(tokens[:, None], begun)[1]

    def inherit(self, trained: Sequence["Trained"]) -> None:
        """Take what is needed of the runs that `starts_from` names, in their order; called before `estimate`."""

    def estimate(self, corpus: Corpus) -> None:
        """Set what is not learnt by gradient from ``corpus.splits["train"]``: counts, clusters, closed forms."""

    def penalty(self) -> Tensor | float:
        """A regulariser in nats per token, added to the training loss and never to perplexity."""
        return 0.0

    def images(self, corpus: Corpus) -> Mapping[str, tuple[Tensor, Sequence[str]]]:
        """Matrices to look at once training is over, by name: (H, W), where 0 is shown black and 1 white.

        A square one may have a label for each of its rows and columns.
        """
        return {}

    def unlisted(self) -> Tensor:
        """(V,) bool, on the CPU: the words of the vocabulary that the model does not have, and reads as `<unk>`."""
        return torch.zeros(self.vocabulary_size, dtype=torch.bool)

    def word_vectors(self) -> Mapping[str, Tensor]:
        """What the model has learnt of each word whatever its context, by name: (V, d) vectors.

        ``input``: of the words that it has read. ``output``: of the words that it predicts. ``states``: of the hidden
        states that a word comes from.
        """
        return {}

    def tables(self) -> Any:
        """What is computed from the parameters for every window, such as the distributions of an HMM; None: nothing."""
        return None

    def lasting_tables(self) -> Any:
        """`tables` with what many windows would otherwise compute again."""
        return self.tables()

    def current_tables(self) -> Any:
        """The tables computed when the model was `frozen`, or new ones."""
        return self.tables() if self._frozen_tables is None else self._frozen_tables

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """A context in which parameters do not change, so that tables are computed once."""
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
        """How many tokens of a text are best scored at once; scores do not depend on it."""
        return 2048

    @property
    def device(self) -> torch.device:
        """Where the model's numbers live."""
        return next((t.device for t in [*self.parameters(), *self.buffers()]), torch.device("cpu"))


def num_parameters(model: nn.Module) -> int | None:
    """Number of learned parameters and table entries, submodels included; None if there are neither.

    Table entries are those of the tensors that ``learnt`` names: of n-grams, probabilities and backoffs.
    """
    sizes = {}
    for module in model.modules():
        tables = [getattr(module, name) for name in getattr(module, "learnt", ())]
        sizes |= {id(tensor): tensor.numel() for tensor in [*module.parameters(recurse=False), *tables]}
    return sum(sizes.values()) or None


@contextmanager
def evaluating(model: LanguageModel) -> Iterator[None]:
    """A context in which the model is in evaluation mode and `frozen`; afterwards it has the mode it had before."""
    training = model.training
    model.eval()
    try:
        with model.frozen():
            yield
    finally:
        model.train(training)


def _check_arguments(model: "LanguageModel", arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Say plainly what is wrong. Tokens are compared with V only on a CPU, since a GPU would have to be waited for."""
    arguments_by_name = dict(zip(("tokens", "state"), arguments, strict=False)) | named
    if len(arguments_by_name) < 2:
        return  # Python says which is missing
    tokens, state = arguments_by_name["tokens"], arguments_by_name["state"]
    if tokens.ndim != 2 or tokens.dtype != torch.int64 or not tokens.shape[1]:
        shape = tuple(tokens.shape)
        hint = "; tokens[None] is a batch of one" if tokens.ndim == 1 else ""
        raise ValueError(f"tokens must be (B, T) int64 with T of at least 1, not {shape} {tokens.dtype}{hint}")
    if rows := [len(part) for part in state if len(part) != len(tokens)]:
        raise ValueError(f"the state is of {rows[0]} rows, the tokens of {len(tokens)}; initial_state({len(tokens)})?")
    if tokens.device.type == "cpu" and len(tokens):
        low, high = tokens.aminmax()
        if low < 0 or high >= model.vocabulary_size:
            wrong = int(low if low < 0 else high)
            raise ValueError(f"tokens: {wrong} is no word of 0 to {model.vocabulary_size - 1}")
