"""EM for dense hidden Markov models with plain tables, and the tables to start it from.

Baum, Petrie, Soules and Weiss, "A maximization technique occurring in the statistical analysis of probabilistic
functions of Markov chains", 1970, https://doi.org/10.1214/aoms/1177697196; Rabiner 1989, §III.C.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lmzoo.corpus.vocabulary import EOS_ID
from lmzoo.corpus.windows import Window
from lmzoo.models.hmm.inference import dense

LEAK = 0.1
"""How much `cluster_start` adds to a state's counts, as a share of them, so that EM finds no probability of 0."""


class Parameters(NamedTuple):
    """The three tables of an HMM: log-probabilities in nats, or the expected count of each event."""

    start: Tensor
    """(Z,) log p(z_1)."""
    transition: Tensor
    """(Z, Z) log p(z_t | z_{t-1})."""
    emission: Tensor
    """(V, Z) log p(x | z)."""


def expected_counts(tables: Parameters, windows: Iterable[Window]) -> tuple[Parameters, float]:
    """The E-step: the expected counts of all events given a text, and its log-likelihood in nats (Rabiner, eq. 38-39).

    Every row of the text begins with the start distribution. The counts are the gradient of the log-likelihood with
    respect to the log-probabilities.
    """
    leaves = Parameters(*(table.detach().requires_grad_() for table in tables))
    total = 0.0
    for window in windows:
        tokens = window.tokens.to(leaves.start.device)
        with torch.enable_grad():
            prior = leaves.start.expand(len(tokens), -1)
            logprobs, _ = dense.forward(prior, leaves.transition, F.embedding(tokens, leaves.emission))
            logprobs = window.unpadded(logprobs)
            logprobs.sum().backward()
        total += float(logprobs.detach().sum(dtype=torch.float64))
    # rounding leaves less than 0 where later words rule a state out
    counts = (leaf.new_zeros(leaf.shape) if leaf.grad is None else leaf.grad.clamp_min_(0) for leaf in leaves)
    return Parameters(*counts), total


def maximise(counts: Parameters, pseudocount: float, before: Parameters) -> Parameters:
    """The M-step: relative frequencies of the counts, each plus ``pseudocount`` (Rabiner 1989, eq. 40).

    EM then never lowers log-likelihood + ``pseudocount`` · Σ of all log-probabilities. A state without any counts
    keeps the distribution that it had ``before``.
    """
    tables = []
    for count, outcomes, old in zip(counts, (0, 1, 0), before, strict=True):  # the dimension of the outcomes
        total = (count + pseudocount).sum(outcomes, keepdim=True)
        tables.append(torch.where(total > 0, ((count + pseudocount) / total).log(), old))
    return Parameters(*tables)


def random_start(tokens: Tensor, vocabulary_size: int, states: int) -> Parameters:
    """Tables drawn from Dirichlet(1); emissions are weighted by how often the words occur in a (N,) text."""

    def draw(*shape: int) -> Tensor:
        return torch.empty(shape, device=tokens.device).exponential_().clamp_min(torch.finfo(torch.float32).tiny).log()

    frequency = (1 + torch.bincount(tokens, minlength=vocabulary_size)).log()[:, None]
    start, transition, emission = draw(states), draw(states, states), draw(vocabulary_size, states) + frequency
    return Parameters(start.log_softmax(0), transition.log_softmax(1), emission.log_softmax(0))


def cluster_start(tokens: Tensor, cluster: Tensor, states: int) -> Parameters:
    """The class bigram model of a (N,) text with a state for each of the words' (V,) clusters, smoothed by `LEAK`."""
    c = cluster[tokens]

    def table(rows: Tensor, row_count: int, columns: Tensor, column_count: int) -> Tensor:
        """(row_count, column_count) log p(column | row)."""
        joint = torch.bincount(rows * column_count + columns, minlength=row_count * column_count)
        joint = joint.view(row_count, column_count).double()
        overall = (1 + joint.sum(0)) / (1 + joint.sum(0)).sum()
        leaked = joint + (LEAK * joint.sum(1, keepdim=True) + 1) * overall
        return (leaked / leaked.sum(1, keepdim=True)).log().float()

    first = c[tokens.roll(1) == EOS_ID]
    start = table(torch.zeros_like(first), 1, first, states)[0]
    return Parameters(start, table(c[:-1], states, c[1:], states), table(c, states, tokens, len(cluster)).T)
