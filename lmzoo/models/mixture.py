"""Several trained models as one."""

import itertools
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

import lmzoo.run
from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.errors import UserError
from lmzoo.models.base import LanguageModel, State
from lmzoo.perplexity import scored
from lmzoo.registry import models

if TYPE_CHECKING:
    from lmzoo.corpus import Corpus

ITERATIONS = 200
"""Of EM, whose likelihood has one maximum."""


@models.register("mixture")
class Mixture(LanguageModel):
    """What K trained models say together, with weights λ_k that are fitted to the valid split:

        per token:     p(x_t | x_<t) = Σ_k λ_k p_k(x_t | x_<t)     (Jelinek & Mercer 1980),
        per sentence:  p(x_1 … x_T)  = Σ_k λ_k p_k(x_1 … x_T)      (Iyer & Ostendorf 1999),
    the second a word at a time, with λ_k p_k(x_1 … x_{t-1}) for λ_k. Of HMMs that score each sentence by itself the
    second is an HMM again, of all their states together, which starts in the k-th with probability λ_k and stays there.

    The state is the (B, K) log-weights that stand before the next token, and the states of the models.

    Args:
        runs: folders of trained runs, of one corpus.
        per: what one of the models says at a time.
    """

    components: Iterable[LanguageModel]
    weights: Tensor

    def __init__(self, *, vocabulary_size: int, runs: list[str], per: Literal["token", "sentence"]):
        super().__init__()
        if not runs:
            raise UserError("model.runs=[]: a mixture needs trained runs; set model.runs=[FOLDER,FOLDER]")
        loaded = [lmzoo.run.load(run) for run in runs]
        self.runs, self.per, self.vocabulary_size = runs, per, vocabulary_size
        self.vocabularies = [vocabulary for _, vocabulary in loaded]
        self.components = nn.ModuleList(model for model, _ in loaded)  # pyright: ignore[reportAttributeAccessIssue]
        self.requires_grad_(False)
        self.register_buffer("weights", torch.full((len(runs),), 1 / len(runs)))

    def estimate(self, corpus: "Corpus") -> None:
        for run, vocabulary in zip(self.runs, self.vocabularies, strict=True):
            if vocabulary.words != corpus.vocabulary.words:
                raise UserError(f"model.runs: {run} was not trained on the words of corpus {corpus.name}; leave it out")
        pieces = [zip(*scored(model, corpus.splits["valid"], corpus.context), strict=True) for model in self.components]
        tokens, logprobs = zip(*((torch.cat(words), torch.cat(scores)) for words, scores in pieces), strict=True)
        table = torch.stack([scores.cpu().double() for scores in logprobs], 1)  # (N, K)
        if self.per == "sentence":
            end = (tokens[0] == EOS_ID).long()
            line = end.cumsum(0) - end  # (N,)
            table = table.new_zeros(int(end.sum()), table.shape[1]).index_add(0, line, table)
        self.weights.copy_(mixture_weights(table))

    def initial_state(self, batch_size: int) -> State:
        parts = [model.initial_state(batch_size) for model in self.components]
        return self.weights.log().expand(batch_size, -1), *itertools.chain.from_iterable(parts)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        results = [model(tokens, part) for model, part in zip(self.components, self._parts(state), strict=True)]
        scores = torch.stack([logprobs for logprobs, _ in results], 2)  # (B, T, K)
        prior, weights, mixed = self.weights.log(), state[0], []
        for score, word in zip(scores.unbind(1), tokens.unbind(1), strict=True):
            joint = weights + score  # (B, K)
            mixed.append(joint.logsumexp(1))
            if self.per == "sentence":
                begin = (word == EOS_ID) | mixed[-1].isneginf()
                weights = torch.where(begin[:, None], prior, joint - mixed[-1][:, None])
        return torch.stack(mixed, 1), (weights, *itertools.chain.from_iterable(after for _, after in results))

    def predict(self, state: State) -> Tensor:
        parts = zip(self.components, self._parts(state), strict=True)
        scores = torch.stack([model.predict(part) for model, part in parts], 2)  # (B, V, K)
        return (scores + state[0][:, None]).logsumexp(2)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        with ExitStack() as stack:
            for model in self.components:
                stack.enter_context(model.frozen())
            yield

    def _parts(self, state: State) -> list[State]:
        """Each model's own."""
        parts = iter(state[1:])
        return [tuple(itertools.islice(parts, len(model.initial_state(1)))) for model in self.components]


def mixture_weights(logprobs: Tensor) -> Tensor:
    """(N, K) log-probabilities of N events under K models -> the (K,) λ that maximise Σ_n log Σ_k λ_k p_k(n).

    By EM (Dempster, Laird & Rubin 1977); an event that no model allows has no say.
    """
    possible = logprobs[~logprobs.isneginf().all(1)]
    weights = logprobs.new_full(logprobs.shape[1:], 1 / logprobs.shape[1])
    for _ in range(ITERATIONS if len(possible) else 0):
        weights = (possible + weights.log()).softmax(1).mean(0)
    return weights
