"""Mixtures of trained models."""

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.options import Options, Source, configured
from lmzoo.corpus import Corpus
from lmzoo.corpus.lines import by_line
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.models.combined.trained import CompositeModel
from lmzoo.protocol.model import LanguageModel, State, models
from lmzoo.protocol.perplexity import text_logprobs
from lmzoo.protocol.state_dict import sized_by_estimate

log = logging.getLogger(__name__)

ITERATIONS = 200
"""How many iterations of EM find the weights; the likelihood is concave in them."""


class MixtureOptions(Options):
    runs: Sequence[Source] = ()
    """folders of trained runs of the same corpus and context, such as [outputs/ptb/ngram,"outputs/ptb/lstm,seed=1"].
    Their models are loaded when training starts, and saved in the checkpoint of the mixture's own run."""
    per: Literal["token", "sentence"] = "token"
    """whether models are mixed per token or per sentence."""


@models.register("mixture")
class Mixture(CompositeModel):
    """The mixture of K trained models p_k with weights λ_k, which `estimate` fits to the valid split:

        per token:     p(x_t | x_<t) = Σ_k λ_k p_k(x_t | x_<t),
        per sentence:  p(x_1 … x_T)  = Σ_k λ_k p_k(x_1 … x_T).

    The second is computed as p(x_t | x_<t) = Σ_k w_k p_k(x_t | x_<t) with w_k ∝ λ_k p_k(x_1 … x_{t-1}); after `<eos>`
    w_k is λ_k again. In a stream p_k also depends on the sentences before. For HMMs that score each sentence by itself,
    the mixture per sentence is again an HMM. It has the states of all, starts in the k-th HMM with probability λ_k and
    stays there. Jelinek & Mercer, "Interpolated estimation of Markov source parameters from sparse data", 1980; Iyer &
    Ostendorf, "Modeling long distance dependence in language", 1999.

    The state is the (B, K) log-weights of the next token, and then the states of the models, one after another.
    """

    estimated_tensors = ("weights",)

    @configured(MixtureOptions)
    def __init__(self, vocabulary_size: int, options: MixtureOptions):
        super().__init__(vocabulary_size)
        self.runs, self.per = options.runs, options.per
        self.starts_from = "model.runs", options.runs
        self.of_sentences = options.per == "sentence"
        self.parts: list[int] = []  # how many tensors the state of each model has, once one was read
        self.begun: list[int] = []  # likewise what each model has begun a step with
        self.weights = nn.Buffer(torch.empty(0))
        """(K,) λ, and none before `estimate`."""
        sized_by_estimate(self, "weights")
        self.forgets_at_eos = True

    def set_components(self, options: Sequence[Mapping[str, Any]], components: Iterable[LanguageModel]) -> None:
        super().set_components(options, components)
        self.parts = []
        self.forgets_at_eos = all(model.forgets_at_eos for model in self.components)
        self.whole_sentences = any(model.whole_sentences for model in self.components)

    def estimate(self, corpus: Corpus) -> None:
        if not self.component_options:
            raise UserError("model.runs=[]: a mixture needs trained runs", "set 'model.runs=[FOLDER,FOLDER]'")
        text = corpus.splits["valid"]
        columns = [text_logprobs(model, text, corpus.context) for model in self.components]
        table = torch.stack([logprobs.cpu().double() for logprobs in columns], 1)  # (N, K)
        if self.per == "sentence":
            table = torch.stack([line.sum(0) for line in by_line(table, text)])
        self.weights = mixture_weights(table).float().to(self.device)
        for folder, weight in zip(self.runs, self.weights.tolist(), strict=True):
            log.info("%.4f %s", weight, folder)

    def initial_state(self, batch_size: int) -> State:
        states = [model.initial_state(batch_size) for model in self.components]
        return self.weights.log().expand(batch_size, -1), *itertools.chain.from_iterable(states)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        results = [model(tokens, inner) for model, inner in self._with_states(state)]
        scores = torch.stack([logprobs for logprobs, _ in results], 2)  # (B, T, K)
        mixed, weights = self._mix(scores, tokens, state[0])
        return mixed, (weights, *itertools.chain.from_iterable(after for _, after in results))

    def _mix(self, scores: Tensor, tokens: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, K) log-probabilities -> (B, T) those of the mixture, and (B, K) log-weights after the last token."""
        if self.per == "token":
            return (scores + weights[:, None]).logsumexp(2), weights
        prior, mixed = self.weights.log(), []
        for score, word in zip(scores.unbind(1), tokens.unbind(1), strict=True):
            joint = weights + score
            mixed.append(joint.logsumexp(1))
            restart = (word == EOS_ID) | mixed[-1].isneginf()  # no weights follow from an impossible token
            weights = torch.where(restart[:, None], prior, joint - mixed[-1][:, None])
        return torch.stack(mixed, 1), weights

    def predict(self, state: State) -> Tensor:
        return self.begin_step(state)[0]

    def begin_step(self, state: State) -> tuple[Tensor, State]:
        steps = [model.begin_step(inner) for model, inner in self._with_states(state)]
        self.begun = [len(begun) for _, begun in steps]
        scores = torch.stack([logprobs for logprobs, _ in steps], 2)  # (B, V, K)
        begun = itertools.chain.from_iterable(begun for _, begun in steps)
        return (scores + state[0][:, None]).logsumexp(2), (state[0], scores, *begun)

    def end_step(self, tokens: Tensor, begun: State) -> State:
        weights, scores, *rest = begun
        chosen = scores[torch.arange(len(tokens), device=tokens.device), tokens]  # (B, K)
        _, weights = self._mix(chosen[:, None], tokens[:, None], weights)
        steps = zip(self.components, _split_parts(rest, self.begun), strict=True)
        return weights, *itertools.chain.from_iterable(model.end_step(tokens, inner) for model, inner in steps)

    @property
    def window_tokens(self) -> int:
        return min(model.window_tokens for model in self.components)

    def _with_states(self, state: State) -> list[tuple[LanguageModel, State]]:
        """The models, each with its own part of the state."""
        if not self.parts:
            self.parts = [len(model.initial_state(1)) for model in self.components]
        return list(zip(self.components, _split_parts(state[1:], self.parts), strict=True))


def _split_parts(tensors: Iterable[Tensor], sizes: Sequence[int]) -> list[State]:
    """The first ``sizes[0]`` tensors, the next ``sizes[1]``, and so on."""
    rest = iter(tensors)
    return [tuple(itertools.islice(rest, size)) for size in sizes]


def mixture_weights(logprobs: Tensor) -> Tensor:
    """(N, K) log-probabilities of N events under K models -> the (K,) λ that maximise Σ_n log Σ_k λ_k p_k(n).

    By EM (Dempster, Laird & Rubin 1977). Events that are impossible under all models are left out.
    """
    possible = logprobs[~logprobs.isneginf().all(1)]
    weights = logprobs.new_full(logprobs.shape[1:], 1 / logprobs.shape[1])
    for _ in range(ITERATIONS if len(possible) else 0):
        weights = (possible + weights.log()).softmax(1).mean(0)
    return weights
