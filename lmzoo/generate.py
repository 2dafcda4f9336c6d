"""Text drawn from a model."""

import torch
from torch import Tensor

from lmzoo.models.base import LanguageModel


@torch.no_grad()
def sample(model: LanguageModel, tokens: int, seed: int) -> Tensor:
    """(tokens,) int64 drawn one by one from a sentence boundary on; the model is left in the mode it was in.

    Raises: ValueError where tokens is less than 1.
    """
    if tokens < 1:
        raise ValueError(f"tokens={tokens}: must be at least 1")
    training, device = model.training, model.device
    model.eval()
    random = torch.Generator(device).manual_seed(seed)
    state, drawn = model.initial_state(1), []
    try:
        with model.frozen():
            for _ in range(tokens):
                token = torch.multinomial(model.predict(state).exp(), 1, generator=random)  # (1, 1)
                drawn.append(token)
                _, state = model(token, state)
    finally:
        model.train(training)
    return torch.cat(drawn, 1)[0]
