"""What the feed-forward models share: how the vectors of a context's words become one vector, and the output layer."""

from abc import abstractmethod

import torch
from torch import Tensor, nn

from lmzoo.corpus import Corpus
from lmzoo.models.neural.output import Output
from lmzoo.models.neural.pretrained import Pretrained
from lmzoo.protocol.condition import Conditioned
from lmzoo.protocol.model import State
from lmzoo.protocol.window_model import WindowModel


class NeuralWindowModel(Conditioned, WindowModel):
    """p(x_t | x_{t-n+1} … x_{t-1}) = softmax(W h_t + b), h_t made of the vectors of the context, the n - 1 last words.

    A word of a window is in up to n - 1 contexts. It is looked up once for all of them, and dropout is drawn once.
    """

    autocast = True
    output: Output
    pretrained: Pretrained

    @abstractmethod
    def features(self, words: Tensor, *condition: Tensor) -> Tensor:
        """(B, T + n - 2) words, and (B,) conditions if lines have them -> (B, T, d) h, one after every n - 1 words."""

    def estimate(self, corpus: Corpus) -> None:
        super().estimate(corpus)
        self.output.estimate(corpus.splits["train"])
        self.pretrained.estimate(corpus.vocabulary.words)

    def initial_state(self, batch_size: int) -> State:
        return (*super().initial_state(batch_size), *self.first_condition(batch_size))

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        context, *condition = state
        history = torch.cat([context, tokens], dim=1)  # (B, n - 1 + T)
        h = self.features(history[:, :-1], *condition).flatten(0, 1)  # (BT, d)
        logprobs = self.output(h, tokens.flatten())
        return logprobs.view(tokens.shape), (history[:, tokens.shape[1] :], *condition)

    def next_logprobs(self, context: Tensor, *condition: Tensor) -> Tensor:
        return self.output.predict(self.features(context, *condition)[:, 0])


def concatenated(vectors: Tensor, places: int) -> Tensor:
    """[v_{t-n+1} … v_{t-1}]: (B, T + n - 2, m) vectors, and n - 1 places -> (B, T, (n - 1) m)."""
    return vectors.unfold(1, places, 1).transpose(2, 3).flatten(2)


def averaged(vectors: Tensor, places: int) -> Tensor:
    """Σ_i v_{t-i} / (n - 1): (B, T + n - 2, m) vectors, and n - 1 places -> (B, T, m)."""
    return vectors.unfold(1, places, 1).sum(3) / max(1, places)


class Fading(nn.Module):
    """Σ_i c_i ∘ v_{t-i}: (B, T + n - 2, m) vectors -> (B, T, m), with a learnt weight for every place and feature.

    These are diagonal context matrices (Mnih & Hinton, *A scalable hierarchical distributed language model*, NIPS
    2008). At the start every feature fades with distance at a rate of its own (Pachitariu & Sahani, *Regularization
    and nonlinearities for neural language models: when are they needed?*, 2013): c_i = α^(i-1), α from 0 for the first
    feature, which sees the last word only, to ``memory`` for the last in equal steps.

    Args:
        memory: the largest α of a fading context: at first, features keep 0 to this share of themselves from word to
            word.
    """

    def __init__(self, places: int, features: int, memory: float):
        super().__init__()
        distance = torch.arange(places - 1, -1, -1)[:, None]  # i - 1, oldest first
        self.c = nn.Parameter(torch.linspace(0, memory, features) ** distance)  # (n - 1, m)

    def forward(self, vectors: Tensor) -> Tensor:
        T = vectors.shape[1] - len(self.c) + 1
        total = vectors.new_zeros(len(vectors), T, vectors.shape[2])
        for place, c in enumerate(self.c):
            total = torch.addcmul(total, vectors[:, place : place + T], c)
        return total


class Matrices(nn.Linear):
    """Σ_i C_i v_{t-i}: (B, T + n - 2, m) vectors -> (B, T, m). It starts as the average.

    The weight is [C_{n-1} … C_1], (m, (n - 1) m).
    """

    def __init__(self, places: int, features: int):
        super().__init__(places * features, features, bias=False)
        self.places = places
        with torch.no_grad():
            self.weight.copy_(torch.eye(features).repeat(1, places) / max(1, places))

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(concatenated(input, self.places))
