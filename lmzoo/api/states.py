"""The hidden states of a text."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.models.hmm.hidden_markov import BlockHMM, DenseHMM
from lmzoo.models.hmm.inference import blocks
from lmzoo.models.hmm.inference.paths import posterior
from lmzoo.models.hmm.reading import read
from lmzoo.models.lds.lds import LinearDynamicalSystem, smooth
from lmzoo.protocol.model import LanguageModel, evaluating


class States(NamedTuple):
    """The states of the n words of a line, `<eos>` included, in the order of the text.

    Attributes:
        words: the words.
        filtered: what is known of each word's state from the words up to it: under a hidden Markov model with Z states
            (n, Z) p(z_t | x_1 … x_t), under a linear dynamical system the (n, h) means of the Gaussian.
        smoothed: the same from all words of the line.
        path: the n states of the likeliest path; None under a linear dynamical system.
        path_share: p(z | x) of that path.
    """

    words: list[str]
    filtered: Tensor
    smoothed: Tensor
    path: list[int] | None = None
    path_share: float | None = None


@torch.no_grad()
def states(model: LanguageModel, tokens: Tensor, order: Tensor, words: list[str]) -> States:
    """The states of a (n,) line in reading order; ``order`` restores that of the text.

    Raises: UserError for another model, and for a line of probability 0.
    """
    if isinstance(model, LinearDynamicalSystem):
        with evaluating(model):
            f = model.filter(tokens[None].to(model.device), model.initial_state(1))
            s = smooth(model.J, model.A, f)
        return States(words, f[0].cpu()[order], s[0].cpu()[order])
    if not isinstance(model, DenseHMM | BlockHMM):
        raise UserError("the model has no hidden states to infer", "give a hidden Markov model or a run of model=lds")
    with evaluating(model):
        found = read(model, tokens)
        if found.logprob == -math.inf:
            raise UserError("the text has probability 0 under the model, so its states have no posterior")
        beliefs = blocks.forward_pass(*found.chain[:4])[1]  # (n + 1, 1, S), the first before the line
        lengths = torch.tensor([len(tokens)], device=model.device)
        both = beliefs[1:, 0].exp(), posterior(found.chain, lengths)[0]
    filtered, smoothed = (
        part.new_zeros(len(tokens), model.states).scatter_(1, found.states, part).cpu()[order] for part in both
    )
    return States(words, filtered, smoothed, found.path[order.to(found.path.device)].tolist(), found.share)
