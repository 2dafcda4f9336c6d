"""The base class of Markov models."""

from abc import abstractmethod

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS_ID
from lmzoo.protocol.model import LanguageModel, State


class WindowModel(LanguageModel):
    """A Markov model of order n: the state is the last n - 1 tokens, with `<eos>` before a sentence."""

    order: int

    @abstractmethod
    def next_logprobs(self, context: Tensor) -> Tensor:
        """(N, n - 1) contexts, oldest word first -> (N, V) log-probabilities in nats."""

    def token_logprobs(self, context: Tensor, tokens: Tensor) -> Tensor:
        """(N, n - 1) contexts and the (N,) tokens that follow -> (N,) log-probabilities in nats."""
        logprobs, shape = self.next_logprobs(context), (len(tokens), self.vocabulary_size)
        if logprobs.shape != shape:
            problem = f"next_logprobs returns shape {tuple(logprobs.shape)}, not {shape}"
            raise UserError(problem, f"correct next_logprobs of {type(self).__name__}")
        return logprobs.gather(1, tokens[:, None])[:, 0]

    def initial_state(self, batch_size: int) -> State:
        return (torch.full((batch_size, self.order - 1), EOS_ID, device=self.device),)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        history = torch.cat([state[0], tokens], dim=1)  # (B, n - 1 + T)
        windows = history.unfold(1, self.order, 1)  # (B, T, n)
        context = windows[..., :-1].flatten(0, 1)  # (BT, n - 1)
        logprobs = self.token_logprobs(context, tokens.flatten())
        return logprobs.view(tokens.shape), (history[:, tokens.shape[1] :],)

    def predict(self, state: State) -> Tensor:
        return self.next_logprobs(*state)

    def end_step(self, tokens: Tensor, begun: State) -> State:
        context, *condition = begun
        return torch.cat([context, tokens[:, None]], dim=1)[:, 1:], *condition
