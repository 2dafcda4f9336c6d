"""Incremental prediction after the beginning of a line."""

import torch
from torch import Tensor

from lmzoo.protocol.condition import initial_state, shares
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.perplexity import validated


class Reader:
    """Reads the beginning of a line, which may have a condition, and predicts the next word.

    For a conditional model without ``condition``, p(x_t | x_<t) = Σ_c p(c | x_<t) p(x_t | c, x_<t). Errors begin with
    ``where``.
    """

    def __init__(self, model: LanguageModel, where: object, condition: int | None = None):
        self.model, self.where = model, where
        conditions, self.joint = None, torch.zeros(1, dtype=torch.float64)  # (C,) log p(c, x_<t)
        if condition is not None:
            conditions = torch.tensor([condition])
        elif (p := shares(model)) is not None:
            conditions, self.joint = torch.arange(len(p)), p.cpu().double().log()
        self.state = initial_state(model, len(self.joint), conditions)

    @torch.no_grad()
    def read(self, tokens: Tensor) -> None:
        """Read (N,) further words of the line."""
        rows = tokens.expand(len(self.joint), -1).to(self.model.device)
        logprobs, self.state = self.model(rows, self.state)
        self.joint = self.joint + validated(logprobs, self.where).cpu().double().sum(1)

    @torch.no_grad()
    def next_words(self) -> Tensor:
        """(V,) float64 p(x_t | x_<t). After a prefix impossible under all conditions, their weights are equal."""
        p = validated(self.model.predict(self.state), self.where).cpu().double().exp()  # (C, V)
        return self.joint.softmax(0).nan_to_num(1 / len(self.joint)) @ p
