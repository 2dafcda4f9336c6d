"""Text drawn from any language model."""

import math

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS_ID, Context
from lmzoo.protocol.model import LanguageModel, evaluating


@torch.no_grad()
def sample(
    model: LanguageModel,
    tokens: int,
    seed: int,
    *,
    context: Context,
    temperature: float = 1.0,
    prompt: Tensor | None = None,
) -> Tensor:
    """(tokens,) int64 word numbers drawn one by one, beginning at a sentence boundary.

    Afterwards the model has the mode (training or evaluation) it had before.

    Args:
        context: with ``sentence`` the model forgets everything at each `<eos>`.
        temperature: τ; words are drawn from p(x)^(1/τ) / Σ p^(1/τ).
        prompt: (N,) words that the first sentence begins with, N at least 1; they are read and not drawn.

    Raises: ValueError where tokens is less than 1, or temperature not positive and finite; UserError where the model
        gives every next word probability 0.
    """
    if tokens < 1:
        raise ValueError(f"tokens={tokens}: must be at least 1")
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature={temperature}: must be positive and finite")
    random = torch.Generator().manual_seed(seed)
    state, drawn = model.initial_state(1), []
    with evaluating(model):
        if prompt is not None:
            _, state = model(prompt[None].to(model.device), state)
        for _ in range(tokens):
            logprobs = model.predict(state).cpu().double()
            if not bool(logprobs.max() > -math.inf):  # nor where they are no numbers
                raise UserError("the model gives every next word probability 0, so that none can be drawn")
            p = ((logprobs - logprobs.max()) / temperature).softmax(1)
            token = torch.multinomial(p, 1, generator=random)  # (1, 1)
            drawn.append(token)
            if context == "sentence" and int(token) == EOS_ID:
                state = model.initial_state(1)
            else:
                _, state = model(token.to(model.device), state)
    return torch.cat(drawn, 1)[0]
