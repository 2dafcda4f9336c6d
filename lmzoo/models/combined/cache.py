"""Caches: words that have just been used are used again.

Kuhn & De Mori, "A cache-based natural language model for speech recognition", 1990; Grave, Joulin & Usunier, "Improving
neural language models with a continuous cache", 2017, https://arxiv.org/abs/1612.04426
"""

import logging

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.options import NonNegative, Options, Size, Source, configured
from lmzoo.corpus import Corpus
from lmzoo.models.combined.mixture import mixture_weights
from lmzoo.models.combined.trained import WrapperModel
from lmzoo.protocol.abilities import HasVectors
from lmzoo.protocol.model import State, models
from lmzoo.protocol.perplexity import text_logprobs

log = logging.getLogger(__name__)

WINDOW = 256
"""Tokens scored at once; each is compared with all of the cache."""


class CacheOptions(Options):
    run: Source | None = None
    """folder of a trained run, whose model is loaded when training starts."""
    size: Size = 500
    """N, the number of words in the cache."""
    theta: NonNegative = 0.0
    """θ. 0: all words have equal weight. Above 0: words whose history had a vector similar to the current one have
    more; the model must have vectors, as recurrent networks have."""


@models.register("cache")
class Cache(WrapperModel):
    """A trained model p_m mixed with a cache of the last N words x_i, each with the vector h_i that predicted it:

        p(x_t | x_<t) = (1 − λ) p_m(x_t | x_<t) + λ p_c(x_t),  p_c(w) ∝ Σ_{t-N ≤ i < t} [x_i = w] exp(θ h_t·h_i).

    Grave et al. (2017), equations 2 to 4. With θ = 0 it is the unigram cache of Kuhn & De Mori (1990): p_c is the share
    of w in the last N words, and any model will do. `estimate` fits λ to the valid split by EM. Where the cache is
    empty, p is p_m. With corpus.context=sentence the cache is empty again at each line.

    The state is the (B, N) words, oldest first and -1 where there is none, their (B, N, d) vectors, and then the state
    of the model. With θ = 0, d is 0.
    """

    estimated_tensors = ("weight",)

    @configured(CacheOptions)
    def __init__(self, vocabulary_size: int, options: CacheOptions):
        super().__init__(vocabulary_size, options.run)
        self.size, self.theta = options.size, options.theta
        self.weight = nn.Buffer(torch.zeros(()))
        """λ, a tensor of one number; 0 before `estimate`."""

    def estimate(self, corpus: Corpus) -> None:
        if self.theta and not isinstance(self.inner, HasVectors):
            name = self.component_options[0]["name"]
            raise UserError(f"model.theta={self.theta}: {name} has no hidden vectors", "set model.theta=0")
        text, columns = corpus.splits["valid"], []
        for weight in (0.0, 1.0):  # the model alone, the cache alone
            self.weight.fill_(weight)
            columns.append(text_logprobs(self, text, corpus.context).cpu().double())
        self.weight.copy_(mixture_weights(torch.stack(columns, 1))[1])
        log.info("the cache has the weight %.4f", self.weight)

    def initial_state(self, batch_size: int) -> State:
        model, words = self.inner, torch.full((batch_size, self.size), -1, device=self.device)
        start, d = model.initial_state(batch_size), 0
        if self.theta and isinstance(model, HasVectors):
            d = model.next_vector(start)[0].shape[1]
        return words, self.weight.new_zeros(batch_size, self.size, d), *start

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        words, vectors, *inner = state
        logprobs, new, after = self._scored(tokens, tuple(inner))
        words, vectors = torch.cat([words, tokens], 1), torch.cat([vectors, new], 1)  # (B, N + T), (B, N + T, d)
        shares = self._shares(new, words, vectors)
        hits = (shares * (words[:, None] == tokens[..., None])).sum(2)  # (B, T)
        return self._mixed(logprobs, hits, shares.sum(2)), (words[:, -self.size :], vectors[:, -self.size :], *after)

    def predict(self, state: State) -> Tensor:
        return self.begin_step(state)[0]

    def begin_step(self, state: State) -> tuple[Tensor, State]:
        words, vectors, *inner = state
        logprobs, query, begun = self._next(tuple(inner))
        vectors = torch.cat([vectors, query[:, None]], 1)  # (B, N + 1, d)
        places = torch.nn.functional.pad(words, (0, 1), value=-1)  # the last is that of the next word
        shares = self._shares(query[:, None], places, vectors)[:, 0]  # (B, N + 1)
        totals = torch.zeros_like(logprobs).scatter_add(1, places.clamp(min=0), shares)
        return self._mixed(logprobs, totals, shares.sum(1, keepdim=True)), (words, vectors, *begun)

    def end_step(self, tokens: Tensor, begun: State) -> State:
        words, vectors, *inner = begun
        words = torch.cat([words, tokens[:, None]], 1)[:, -self.size :]
        return words, vectors[:, -self.size :], *self.inner.end_step(tokens, tuple(inner))

    def _mixed(self, logprobs: Tensor, p: Tensor, total: Tensor) -> Tensor:
        """log((1 − λ) p_m + λ p_c) from log p_m, p_c and Σ p_c, which is 0 where the cache is empty."""
        log_p = torch.where(p > 0, p.clamp(min=torch.finfo(p.dtype).tiny).log(), -torch.inf)  # gradient 0 where p is
        cached = torch.where(total > 0, log_p, logprobs)
        return torch.logaddexp((-self.weight).log1p() + logprobs, self.weight.log() + cached)

    def _shares(self, queries: Tensor, words: Tensor, vectors: Tensor) -> Tensor:
        """The share of each of (B, N + T) words in the caches of the last T: (B, T, N + T); none in an empty one."""
        T = queries.shape[1]
        offset = torch.arange(T, device=words.device)
        place = torch.arange(words.shape[1], device=words.device)
        reach = (place < offset[:, None] + self.size) & (place >= offset[:, None])  # (T, N + T)
        scores = self.theta * queries @ vectors.transpose(1, 2)
        return scores.masked_fill(~(reach & (words[:, None] >= 0)), -torch.inf).softmax(2).nan_to_num(0.0)

    def _scored(self, tokens: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
        """The model's scores of (B, T) tokens, the (B, T, d) vectors that predict them, and the state after them."""
        if not self.theta:
            logprobs, after = self.inner(tokens, state)
            return logprobs, logprobs.new_empty(*tokens.shape, 0), after
        model: HasVectors = self.inner  # pyright: ignore[reportAssignmentType]
        vectors, after = model.vectors(tokens, state)
        return model.output(vectors.flatten(0, 1), tokens.flatten()).view(tokens.shape), vectors, after

    def _next(self, state: State) -> tuple[Tensor, Tensor, State]:
        """`begin_step` of the model, and between its two parts the (B, d) vector that predicts the next token."""
        if not self.theta:
            logprobs, begun = self.inner.begin_step(state)
            return logprobs, logprobs.new_empty(len(logprobs), 0), begun
        model: HasVectors = self.inner  # pyright: ignore[reportAssignmentType]
        vector, begun = model.next_vector(state)
        return model.output.predict(vector), vector, begun

    @property
    def window_tokens(self) -> int:
        return min(self.inner.window_tokens, WINDOW)
