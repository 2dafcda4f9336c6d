"""A Markov model of few contexts as a hidden Markov model: z_t is the last n - 1 words up to x_t."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.numerics.logspace import log_linear

if TYPE_CHECKING:
    from lmzoo.protocol.window_model import WindowModel

LARGEST = 2**27
"""The largest number V^n of probabilities."""
ROWS = 2**12
"""How many contexts are read at once."""


class ContextChain:
    """See `lmzoo.protocol.abilities.HiddenChain`. Context z is a number with base V, its last word the last digit.

    Raises: UserError where there are over `LARGEST` n-grams.
    """

    def __init__(self, model: "WindowModel"):
        V, n = model.vocabulary_size, max(2, model.order)
        if V**n > LARGEST:
            problem = f"a model of order {n} has {V ** (n - 1):,} contexts of {V:,} words, too many for exact answers"
            raise UserError(problem, "a model of order 2, or an HMM, has them")
        self.V, self.Z = V, V ** (n - 1)
        places = V ** torch.arange(n - 2, -1, -1, device=model.device)
        contexts = torch.arange(self.Z, device=model.device)[:, None] // places % V  # (Z, n - 1)
        contexts = contexts[:, n - model.order :]  # none for unigrams
        logprobs = torch.cat([model.next_logprobs(some) for some in contexts.split(ROWS)])  # (Z, V)
        self.start = logprobs.new_full((self.Z,), -torch.inf).double()
        self.start[:V] = logprobs[0]  # `<eos>` is word 0, and before a sentence there is nothing else
        self.p = logprobs.double().exp().view(V, -1, V)  # of the first word, those between, and the next

    def class_logprobs(self, classes: Tensor, number: int) -> Tensor:
        emits = classes == torch.arange(number, device=classes.device)[:, None]  # (number, V)
        return torch.where(emits, 0.0, -torch.inf).double().repeat(1, self.Z // self.V)

    def step_backward(self, v: Tensor, needed: Tensor | None = None) -> Tensor:
        def product(p: Tensor) -> Tensor:
            return torch.einsum("arw,nrw->nar", self.p, p.view(len(p), -1, self.V)).flatten(1)

        return log_linear(product, v, torch.float64)

    def step_forward(self, u: Tensor, needed: Tensor | None = None) -> Tensor:
        def product(p: Tensor) -> Tensor:
            return torch.einsum("arw,nar->nrw", self.p, p.view(len(p), self.V, -1)).flatten(1)

        return log_linear(product, u, torch.float64)

    def words(self, w: Tensor) -> Tensor:
        return w.view(len(w), -1, self.V).logsumexp(1)

    def emission_logprobs(self, words: Tensor) -> Tensor:
        return torch.where(
            torch.arange(self.Z, device=words.device) % self.V == words[:, None], 0.0, -torch.inf
        ).double()
