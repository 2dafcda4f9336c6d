"""Text drawn from a model."""

import torch
from torch import Tensor

from lmzoo.models.base import LanguageModel, evaluating


@torch.no_grad()
def sample(model: LanguageModel, tokens: int, seed: int) -> Tensor:
    """(tokens,) int64 drawn one by one from a sentence boundary on; the model is left in the mode it was in.

    Raises: ValueError where tokens is less than 1.
    """
    if tokens < 1:
        raise ValueError(f"tokens={tokens}: must be at least 1")
    random = torch.Generator(model.device).manual_seed(seed)
    state, drawn = model.initial_state(1), []
    with evaluating(model):
        for _ in range(tokens):
            token = torch.multinomial(model.predict(state).exp(), 1, generator=random)  # (1, 1)
            drawn.append(token)
            _, state = model(token, state)
    return torch.cat(drawn, 1)[0]
