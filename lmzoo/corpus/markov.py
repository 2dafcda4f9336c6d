"""Text drawn from a known hidden Markov model, so that its true perplexity is known."""

import math
from bisect import bisect
from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID


@dataclass(frozen=True)
class MarkovSource:
    """A hidden Markov model with K states and V words, in float64.

    State 0 is the sentence boundary. It emits `<eos>`, which no other state emits, and the chain starts in it. So
    sentences are independent, and the probability of a text is the same in both contexts.

    Attributes:
        transition: (K, K), rows sum to 1. Row 0 is the start of a sentence.
        emission: (K, V), rows sum to 1.
    """

    transition: Tensor
    emission: Tensor

    @classmethod
    def draw(cls, states: int, words: int, sentence_length: float, concentration: float, seed: int) -> "MarkovSource":
        """A random source.

        Args:
            states: K - 1.
            words: V - 1.
            sentence_length: the mean number of words in a sentence, at least 1; no sentence is empty.
            concentration: the parameter of the Dirichlet distribution of each row.
        """
        random = torch.Generator().manual_seed(seed)
        alpha = torch.full((), concentration, dtype=torch.float64)

        def dirichlet(rows: int, columns: int) -> Tensor:
            # Only the private function accepts a generator.
            draws = torch._standard_gamma(alpha.expand(rows, columns), generator=random)  # pyright: ignore
            return (draws + 1e-6) / (draws + 1e-6).sum(1, keepdim=True)

        transition = torch.zeros(states + 1, states + 1, dtype=torch.float64)
        transition[:, 1:] = dirichlet(states + 1, states)
        transition[1:] *= 1 - 1 / sentence_length
        transition[1:, 0] = 1 / sentence_length
        emission = torch.zeros(states + 1, words + 1, dtype=torch.float64)
        emission[0, EOS_ID] = 1
        emission[1:, 1:] = dirichlet(states, words)
        return cls(transition, emission)

    def sample(self, tokens: int, seed: int) -> Tensor:
        """(N,) int64 text of at least ``tokens`` tokens, up to the next `<eos>`."""
        random = torch.Generator().manual_seed(seed)
        next_state, word = self.transition.cumsum(1).tolist(), self.emission.cumsum(1).tolist()
        last_state, last_word = len(next_state) - 1, len(word[0]) - 1  # rounding: a sum may be below 1
        text: list[int] = []
        state = 0
        while len(text) < tokens or state != 0:
            for u, v in torch.rand(1024, 2, dtype=torch.float64, generator=random).tolist():
                state = min(bisect(next_state[state], u), last_state)
                text.append(min(bisect(word[state], v), last_word))
                if len(text) >= tokens and state == 0:
                    break
        return torch.tensor(text)

    def logprobs(self, text: Tensor) -> Tensor:
        """(N,) text -> (N,) log p(x_t | x_<t) in nats, float64, by the forward algorithm (Rabiner 1989, eq. 19-21)."""
        belief = torch.zeros(len(self.transition), dtype=torch.float64)
        belief[0] = 1
        logprobs = []
        for word in text.tolist():
            joint = (belief @ self.transition) * self.emission[:, word]  # (K,)
            probability = joint.sum()
            logprobs.append(math.log(probability))
            belief = joint / probability
        return torch.tensor(logprobs, dtype=torch.float64)

    def perplexity(self, text: Tensor) -> float:
        """(N,) text -> its perplexity under this source."""
        return math.exp(-float(self.logprobs(text).mean()))
