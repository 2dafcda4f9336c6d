"""Models conditioned on the label of each line."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lmzoo.corpus import Corpus
from lmzoo.protocol.model import LanguageModel, State


class Conditioned(LanguageModel):
    """A model of p(x | c) if lines have conditions c; otherwise of p(x).

    Each c has a trainable vector, initially zero, which is added to all input word vectors. This is equivalent to
    concatenating a vector to each input, W [e; v] = W_e e + W_v v, with one W for both: Mikolov & Zweig, "Context
    dependent recurrent neural network language model", SLT 2012; Ficler & Goldberg, "Controlling linguistic style
    aspects in neural language generation", 2017, https://arxiv.org/abs/1707.02633.

    With conditions, the last tensor of the state is the (B,) index of each row's condition.
    """

    condition_vectors: nn.Parameter | None
    """(K, d) vectors of the conditions."""
    condition_shares: Tensor | None
    """(K,) p(c), the relative frequency of each condition among the lines of train."""

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("condition_vectors", None)
        self.register_buffer("condition_shares", None)

    def add_conditions(self, number: int) -> None:
        """Make the model conditional on ``number`` conditions."""
        size = self.word_vectors()["input"].shape[1]
        self.condition_vectors = nn.Parameter(torch.zeros(number, size))
        self.condition_shares = torch.full((number,), 1 / number)

    def estimate(self, corpus: Corpus) -> None:
        if self.condition_shares is not None:
            counts = corpus.conditions["train"].bincount(minlength=len(self.condition_shares))
            self.condition_shares.copy_(counts / counts.sum())

    def first_condition(self, batch_size: int) -> State:
        """The last part of `initial_state` if there are conditions: index 0 in each row."""
        return () if self.condition_vectors is None else (torch.zeros(batch_size, dtype=torch.int64).to(self.device),)

    def add_condition(self, vectors: Tensor, conditions: Sequence[Tensor]) -> Tensor:
        """(B, T, d) word vectors, and the last part of the state -> (B, T, d) word vectors plus condition vectors."""
        if self.condition_vectors is None:
            return vectors
        return vectors + nn.functional.embedding(conditions[0], self.condition_vectors)[:, None]


def shares(model: LanguageModel) -> Tensor | None:
    """(K,) p(c) of a model's conditions; None if it has none."""
    return model.condition_shares if isinstance(model, Conditioned) else None


def initial_state(model: LanguageModel, rows: int, conditions: Tensor | None) -> State:
    """`initial_state` of rows that may have conditions; raise a ValueError if the model does not support them."""
    state = model.initial_state(rows)
    if conditions is None:
        return state
    if shares(model) is None:
        raise ValueError("the model has no conditions")
    return *state[:-1], conditions.to(model.device)
