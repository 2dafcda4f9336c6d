"""Small block-sparse HMMs of every kind, and the dense tables that each of them stands for."""

from typing import NamedTuple

import torch
from hmm_oracle import V, assert_same_with_gradients, lse, recursion, residual, words
from torch import Tensor

from lmzoo.models.hmm.block_hmm import BlockHMM, BlockHMMOptions
from lmzoo.models.hmm.lowrank_hmm import LowRankTransitions
from lmzoo.models.hmm.neural_distributions import NeuralDistributions
from lmzoo.models.hmm.twolevel_hmm import TwoLevelTransitions
from lmzoo.protocol.model import models

OPTIONS = {
    "states": 12,
    "clusters": 3,
    "clustering": "brown",
    "dim": 6,
    "embeddings": "free",
    "tied": False,
    "dropout": 0.0,
    "state_dropout": 0.5,
    "parent": None,
    "distilled_from": None,
    "distillation_epochs": 6,
}
OF_MODEL = {
    "vlhmm": {},
    "twolevel_hmm": {"temperature": 0.8, "teacher": None, "teacher_weight": 1.0},
    "lowrank_hmm": {"features": 4, "feature_map": "exp", "block_features": False},
    "lowrank_hmm, features in clusters": {"feature_map": "softmax", "block_features": True},
}
SWITCHES = [
    *((name, {"tied": True}) for name in OF_MODEL),
    *((name, {"embeddings": "factored"}) for name in OF_MODEL),
    *((name, {"embeddings": "factored", "tied": True, "dim": 7}) for name in OF_MODEL),
    ("lowrank_hmm", {"feature_map": "softmax_kernel", "features": 7}),
    ("lowrank_hmm, features in clusters", {"feature_map": "softmax_kernel", "features": 3}),
    ("lowrank_hmm, features in clusters", {"features": 12}),
    ("lowrank_hmm", {"feature_map": "softmax", "tied": True}),
    ("lowrank_hmm, features in clusters", {"feature_map": "exp"}),
]
"""Names and options that together turn every switch of every model."""


class Tabulated(NamedTuple):
    """p(j | i) from a table."""

    table: Tensor
    """(M, K, M, K) log p(j | i)."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        return self.table[source, :, target]

    def leaving(self, cluster: int) -> Tensor:
        return self.table[cluster]


class TableDistributions(torch.nn.Module):
    """Every start, transition and emission probability has a logit of its own, at first drawn from N(0, 1)."""

    def __init__(self, vocabulary_size: int, options: BlockHMMOptions):
        super().__init__()
        Z, self.size = options.states, options.states // options.clusters
        self.start = torch.nn.Parameter(torch.randn(Z))
        self.transition = torch.nn.Parameter(torch.randn(Z, Z))
        self.emission = torch.nn.Parameter(torch.randn(vocabulary_size, self.size))

    def forward(self, states: Tensor, cluster: Tensor) -> tuple[Tensor, Tensor, Tabulated]:
        flat = states.flatten()
        start = self.start[flat].log_softmax(0).view(states.shape)
        transition = self.transition[flat[:, None], flat].log_softmax(1).view(*states.shape, *states.shape)
        logits = self.emission.gather(1, (states % self.size)[cluster])
        sums = torch.stack([logits[cluster == c].logsumexp(0) for c in cluster])
        return start, logits - sums, Tabulated(transition)


def table_hmm() -> BlockHMM:
    """A model of six words and states, two in each of three clusters, whose distributions are free."""
    torch.manual_seed(0)
    model = BlockHMM(6, BlockHMMOptions(states=6, clusters=3, clustering="uniform"))
    model.distributions = TableDistributions(6, model.options)
    model.cluster.copy_(torch.tensor([2, 0, 0, 1, 1, 2]))
    return model.eval()


def make(name: str, **options) -> BlockHMM:
    torch.manual_seed(0)
    settings = {"name": name.partition(",")[0]} | OPTIONS | OF_MODEL[name] | options
    if settings.get("block_features"):  # a feature for every two states, where that is possible
        pairs = settings["states"] // settings["clusters"] % 2 == 0
        settings = {"features": settings["states"] // (2 if pairs else 1)} | settings
    model = models.build(settings, vocabulary_size=V).double()
    for parameter_name, parameter in model.named_parameters():
        if "norm" in parameter_name:  # fresh ones are all 1 or 0
            torch.nn.init.normal_(parameter)
    return model


def vectors(embedding) -> Tensor:
    """(Z, d) all vectors of states."""
    if isinstance(embedding, torch.nn.Embedding):
        return embedding.weight
    clusters, states = embedding.cluster.weight, embedding.state.weight
    return torch.cat([clusters.repeat_interleave(len(states) // len(clusters), 0), states], 1)


def is_dropped(model: BlockHMM, kept: Tensor) -> Tensor:
    """(Z,) whether a state is none of the (M + 1, K) kept ones."""
    return torch.ones(model.clusters, model.size, dtype=torch.bool).scatter(1, kept[:-1], False).flatten()


def dense_tables(model: BlockHMM, kept: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """log p(z_1) (Z,), log p(z′ | z) (Z, Z), log p(x | z) (Z, V).

    Dropped states have probability 0, and so have words outside a state's cluster.
    """
    S, dropped, parts = model.size, is_dropped(model, kept), model.distributions
    outside = model.cluster != torch.arange(model.states)[:, None] // S
    if isinstance(parts, TableDistributions):
        both = parts.start, parts.transition
        start, transition = (x.masked_fill(dropped, -torch.inf).log_softmax(-1) for x in both)
        emission = torch.stack([parts.emission[:, z % S] for z in range(model.states)])
        return start, transition, emission.masked_fill(outside, -torch.inf).log_softmax(1)
    assert isinstance(parts, NeuralDistributions)
    chain, destinations = parts.transitions, parts.transitions.destinations
    e = vectors(parts.origin)
    v = e if destinations.vectors is None else vectors(destinations.vectors)
    v = v if destinations.layer is None else residual(destinations.layer, v)
    if isinstance(chain, TwoLevelTransitions):
        start, transition = two_levels(chain, model, e, v, dropped)
    else:
        start = (residual(chain.start, e) @ chain.first.weight[0]).masked_fill(dropped, -torch.inf).log_softmax(0)
        low_rank = isinstance(chain, LowRankTransitions)
        logits = low_rank_logits(chain, model, e, v, dropped) if low_rank else full_logits(chain, e, v)
        transition = logits.masked_fill(dropped, -torch.inf).log_softmax(1)
    emission = residual(parts.emission, e) @ parts.word.weight.T + parts.word.bias
    return start, transition, emission.masked_fill(outside, -torch.inf).log_softmax(1)


def full_logits(chain, e: Tensor, v: Tensor) -> Tensor:
    """(Z, Z) u_i·v_j."""
    return residual(chain.transition, e) @ v.T


def low_rank_logits(chain: LowRankTransitions, model: BlockHMM, e: Tensor, v: Tensor, dropped: Tensor) -> Tensor:
    """(Z, Z) log φ(u_i)·φ(v_j), by the definitions of the kernels."""
    half = 0.5 * (chain.feature_map == "softmax_kernel") / e.shape[1]
    u, W = residual(chain.transition, e), chain.feature_vectors
    phi = [(x @ w.T - half * (x * x).sum(1, keepdim=True)).exp() for x, w in ((u, W), (v, chain.targets))]
    if chain.block_features:
        phi[0] = phi[0] * ~dropped.view(len(W), -1).all(1)  # features all of whose states are dropped
        phi[1] = phi[1] * torch.block_diag(*torch.ones(model.clusters, model.size, len(W) // model.clusters))
    if chain.feature_map == "softmax":
        total = phi[1].masked_fill(dropped[:, None], 0.0).sum(0)
        phi[1] = phi[1] / total.where(total > 0, 1.0)
    return (phi[0] @ phi[1].T).log()


def two_levels(
    chain: TwoLevelTransitions, model: BlockHMM, e: Tensor, v: Tensor, dropped: Tensor
) -> tuple[Tensor, Tensor]:
    """log p(z_1) and log p(z′ | z): the boundary is one more state, to which nothing leads."""
    e = torch.cat([e, chain.boundary[None]])
    arrival = residual(chain.arrival, e) @ chain.next_cluster.weight.T + chain.next_cluster.bias
    inside = full_logits(chain, e, v) / (1 if chain.training else chain.temperature)
    inside = inside.masked_fill(dropped, -torch.inf).view(-1, model.clusters, model.size)
    transition = (arrival.log_softmax(1)[:, :, None] + inside.log_softmax(2)).flatten(1)
    return transition[-1], transition[:-1]


def dense_forward(
    model: BlockHMM, tokens: Tensor, kept: Tensor, before: tuple[Tensor, Tensor] | None = None
) -> tuple[Tensor, Tensor]:
    """log p(x_t | x_<t) (B, T) and the last dense log-belief (B, Z) by the plain recursion.

    Args:
        before: the (B, Z) log-belief under another draw of states, and the (B,) words that it comes after.
    """
    start, transition, emission = dense_tables(model, kept)
    if before is None:
        return recursion(start, transition, emission, tokens)
    belief, word = before
    dropped = is_dropped(model, kept)
    own = torch.arange(model.states) // model.size == model.cluster[word][:, None]
    belief = belief.masked_fill(dropped, -torch.inf)
    lost = ~belief.gt(-1e200).any(1, keepdim=True)  # no state of the belief is kept
    belief = belief.where(~lost, torch.zeros(()).double()).masked_fill(dropped | ~own, -torch.inf)
    belief = belief - lse(belief, 1)[:, None]
    return recursion(lse(belief[:, :, None] + transition, 1), transition, emission, tokens)


def assert_agrees_with_dense_tables(model: BlockHMM) -> None:
    """The likelihoods of random texts, and the gradients of their weighted sum."""
    tokens, weights = words(5, 7), torch.randn(5, 7, dtype=torch.float64)
    weights[0, 1:], weights[1, 4:] = 0, 0  # padding
    torch.manual_seed(2)
    kept = model.tables().active
    torch.manual_seed(2)
    logprobs, _ = model(tokens, model.initial_state(5))
    expected, _ = dense_forward(model, tokens, kept)
    assert_same_with_gradients(model, logprobs, expected, weights)
