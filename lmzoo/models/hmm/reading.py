"""How a hidden Markov model reads: likeliest path, beliefs as it reads on, visits of each state, vectors of words."""

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from lmzoo.corpus.windows import SentenceWindows
from lmzoo.models.hmm.inference.paths import Chain, posterior, viterbi
from lmzoo.numerics.gpu_sync import to_device_async

if TYPE_CHECKING:
    from lmzoo.models.hmm.hidden_markov import HiddenMarkovModel

MOST_TRANSITIONS = 1 << 24
"""The most numbers log p(z_t | z_{t-1}) in memory at once, of several beginnings of a sentence."""

WINDOW_TOKENS = 512
"""How many tokens are read at once: a dense model has a transition matrix in memory for each of their lines."""


class Reading(NamedTuple):
    """A sentence of T tokens, read by a model."""

    logprob: float
    """log p(x) in nats; where it is -inf, there is no likeliest path."""
    path: Tensor
    """(T,) the states z that maximise p(z, x)."""
    path_logprob: float
    """log p(z, x) of that path in nats."""
    chain: Chain
    """What the functions of `lmzoo.models.hmm.inference.paths` need."""

    @property
    def states(self) -> Tensor:
        """(T, S) the numbers of the states that each word may come from."""
        return self.chain.states[self.chain.block[0]]

    @property
    def share(self) -> float:
        """p(z | x) of the likeliest path."""
        return math.exp(min(0.0, self.path_logprob - self.logprob))


@torch.no_grad()
def read(model: "HiddenMarkovModel", tokens: Tensor) -> Reading:
    """A (T,) sentence, from `initial_state`."""
    text, state = tokens[None].to(model.device), model.initial_state(1)
    logprobs, _ = model(text, state)
    chain = model.chain(text, state)
    path, logprob = viterbi(chain, torch.tensor([len(tokens)], device=model.device))
    return Reading(float(logprobs.sum()), path[0], float(logprob), chain)


def beliefs(chain: Chain) -> Tensor:
    """(T, T, S) p(z_t | x_1 … x_k) at [k - 1, t - 1] of a chain of one text, 0 where t > k.

    On the diagonal t = k is the filter, and the last row k = T is the smoother (Rabiner 1989, eq. 27).
    """
    T, S = chain.pair.shape[1], chain.states.shape[1]
    found = []
    for lengths in torch.arange(1, T + 1, device=chain.belief.device).split(max(1, MOST_TRANSITIONS // S**2)):
        n, longest = len(lengths), int(lengths[-1])
        rows = [part.expand(n, *part.shape[1:]) for part in (chain.belief, chain.pair, chain.emission, chain.block)]
        belief, pair, emission, block = rows[0], *(part[:, :longest] for part in rows[1:])
        gamma = posterior(chain._replace(belief=belief, pair=pair, emission=emission, block=block), lengths)
        found.append(torch.nn.functional.pad(gamma, (0, 0, 0, T - longest)))
    return torch.cat(found)


@torch.no_grad()
def expected_visits(model: "HiddenMarkovModel", tokens: Tensor) -> Tensor:
    """(Z,) Σ_t p(z_t | x) over a (N,) text, each line of which, closed by `<eos>`, begins with `initial_state`.

    Lines of probability 0 are left out. Without such lines the visits sum to N.
    """
    visits = torch.zeros(model.states, dtype=torch.float64)
    for window in SentenceWindows(tokens, WINDOW_TOKENS, seed=None).epoch(0):
        text = to_device_async(window.tokens, model.device)
        inside = to_device_async(window.inside, model.device)
        state = model.initial_state(len(text))
        possible = model(text, state)[0].where(inside, 0.0).sum(1).isfinite()  # (B,)
        chain = model.chain(text, state)
        gamma = posterior(chain, inside.sum(1))
        gamma = gamma.where(possible[:, None, None], 0.0).cpu().double()
        visits.index_add_(0, chain.states[chain.block].flatten().cpu(), gamma.flatten())
    return visits


def state_posteriors(model: "HiddenMarkovModel", tokens: Tensor, mask: Tensor | None = None) -> Tensor:
    """(B, T) tokens -> (B, T, Z) √p(z_t | x), each from all words of its sentence, a row; 0 on padding. See `Encoder`.

    They have unit length, and the cosine of two is Σ_z √(p(z | x) p(z | y)). ``mask`` is False on padding.
    """
    B, T = tokens.shape
    lengths = tokens.new_full((B,), T) if mask is None else mask.sum(1)
    with model.frozen():
        chain = model.chain(tokens, model.initial_state(B))
    gamma = posterior(chain, lengths)
    return gamma.new_zeros(B, T, model.states).scatter_(2, chain.states[chain.block], gamma.sqrt())


def states_of_words(model: "HiddenMarkovModel") -> Tensor:
    """(V, Z) √p(z | x), all states being equally likely at first; a cosine is Σ_z √(p(z | x) p(z | y))."""
    with model.frozen():
        emission = torch.stack([model.words(z) for z in range(model.states)], dim=1)  # (V, Z)
    return emission.softmax(1).nan_to_num().sqrt()


def entropy(counts: Tensor) -> float:
    """The entropy of relative frequencies, in nats."""
    p = counts.double() / counts.sum()
    return float(-torch.xlogy(p, p).sum())
