"""What the HMMs of states and words in clusters share: vectors, emissions, state dropout, the walk over a window.

Chiu and Rush, "Scaling Hidden Markov Language Models", EMNLP 2020, https://aclanthology.org/2020.emnlp-main.103
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import lmzoo.run  # whole, because that module imports the models
from lmzoo.clustering import Clustering, word_clusters
from lmzoo.corpus import Corpus
from lmzoo.errors import UserError
from lmzoo.hmm import blocks
from lmzoo.hmm.paths import Chain
from lmzoo.models.base import State, evaluating
from lmzoo.models.hidden_markov import HiddenMarkovModel, expected_visits, first_lines, renormalised
from lmzoo.registry import Dropout, Size

Embeddings = Literal["free", "factored"]

SPLIT_NOISE = 0.1
"""Length of the noise that parts the vectors of a split state, relative to theirs."""

LINES_READ = 1000
"""So many lines of the valid split tell how much each state is used, for a picture."""


class Transitions(Protocol):
    """p(z_t | z_{t-1}) over the K states kept of each of the M clusters, in nats."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        """(P, K, K) from the states of one cluster to those of another, for (P,) distinct pairs ordered by source."""
        ...

    def leaving(self, cluster: int) -> Tensor:
        """(K, M, K) from the states of one cluster to all."""
        ...

    def kept(self) -> "Transitions":
        """The same, with whatever every batch would otherwise compute anew."""
        ...


class Tables(NamedTuple):
    """What the parameters say about the K states kept of every cluster."""

    kept: Tensor
    """(M + 1, K) int64 numbers of the kept states within each cluster, and any K for the boundary."""
    start: Tensor
    """(M, K) log p(z_1)."""
    emission: Tensor
    """(V, K) log p(x | z) of a word under the states of its cluster."""
    transitions: Transitions


class BlockHMM(HiddenMarkovModel[Tables]):
    """An HMM with M clusters of S states and of words.

    A word is emitted by the states of its own cluster alone, so inference is exact and local. State dropout leaves, of
    every cluster and for every batch, round((1 - state_dropout) S) states but at least one, drawn without replacement,
    as if there were no others; where several are left out `together`, so many such groups.

    The state is the (B, S) log-belief over the states of the last word's cluster and (B,) that cluster,
    M standing for a sentence boundary. What dropout has taken away is -inf there.

    Args:
        states: their number Z = MS.
        clusters: M.
        clustering: which words are together: see `word_clusters`. `estimate` deals them out anew.
        state_dropout: share of each cluster's states left out of a batch.

    Raises:
        UserError: where clusters are more than words, or states are not a multiple of clusters.
    """

    autocast = True
    together = 1
    """How many states of a cluster, one after another, dropout leaves out together; a divisor of S."""
    cluster: Tensor

    def __init__(
        self, *, vocabulary_size: int, states: int, clusters: int, clustering: Clustering, state_dropout: float
    ):
        super().__init__()
        if clusters > vocabulary_size:
            raise UserError(
                f"model.clusters={clusters}: there are only {vocabulary_size} words; set model.clusters to fewer"
            )
        if states % clusters:
            raise UserError(
                f"model.states={states} is not a multiple of model.clusters={clusters}; "
                f"the nearest that is: {max(1, round(states / clusters)) * clusters}"
            )
        self.vocabulary_size, self.states, self.clusters = vocabulary_size, states, clusters
        self.size = states // clusters
        self.clustering: Clustering = clustering
        self.state_dropout = state_dropout
        self.register_buffer("cluster", clusters - 1 - torch.arange(vocabulary_size) % clusters)

    @abstractmethod
    def distributions(self, states: Tensor) -> tuple[Tensor, Tensor, Transitions]:
        """`Tables.start`, `Tables.emission` and `Tables.transitions` of (M, K) states, as if there were no others.

        They come in whole groups of `together`.
        """

    def estimate(self, corpus: Corpus) -> None:
        self.cluster.copy_(word_clusters(self.clustering, corpus.train, self.vocabulary_size, self.clusters))

    def initial_state(self, batch_size: int) -> State:
        belief = next(self.parameters()).new_full((batch_size, self.size), -math.log(self.size))
        return belief, torch.full((batch_size,), self.clusters, device=self.device)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        *chain, cluster, states = self.chain(tokens, state)
        logprobs, belief = blocks.forward(*chain)
        last = cluster[:, -1]
        whole = belief.new_full((len(tokens), self.size), -torch.inf)
        return logprobs, (whole.scatter(1, states[last] % self.size, belief), last)

    def chain(self, tokens: Tensor, state: State) -> Chain:
        tables = self.current()
        M = self.clusters
        target = self.cluster[tokens]  # (B, T)
        source = torch.cat([state[1][:, None], target[:, :-1]], dim=1)
        codes, pair = torch.unique(source * M + target, return_inverse=True)  # (P,), (B, T)
        inside = codes[codes < M * M]
        first = tables.start[codes[len(inside) :] - M * M]  # (P₁, K), of pairs that come from the boundary
        tiles = tables.transitions.tiles(inside // M, inside % M)  # (P - P₁, K, K)
        tiles = torch.cat([tiles, first[:, None].expand(-1, first.shape[1], -1)])
        states = tables.kept[:M] + self.size * torch.arange(M, device=self.device)[:, None]
        belief, emission = self._restrict(state, tables.kept), F.embedding(tokens, tables.emission)
        return Chain(belief, tiles, pair, emission, target, states)

    def predict(self, state: State) -> Tensor:
        tables = self.current()
        rows = []
        for belief, previous in zip(self._restrict(state, tables.kept), state[1].tolist(), strict=True):
            if previous == self.clusters:
                prior = tables.start
            else:
                prior = (belief[:, None, None] + tables.transitions.leaving(previous)).logsumexp(0)  # (M, K)
            rows.append((prior[self.cluster] + tables.emission).logsumexp(1))
        return torch.stack(rows)

    def words(self, state: int) -> Tensor:
        tables = self.current()
        own = self.cluster == state // self.size
        return tables.emission[:, state % self.size].masked_fill(~own, -torch.inf)

    def successors(self, state: int) -> Tensor:
        tables = self.current()
        return tables.transitions.leaving(state // self.size)[state % self.size].flatten()

    def next_words(self, state: int) -> Tensor:
        own = torch.arange(self.size, device=self.device) == state % self.size
        belief = torch.where(own, 0.0, -torch.inf).to(next(self.parameters()).dtype)
        return self.predict((belief[None], torch.tensor([state // self.size], device=self.device)))[0]

    @torch.no_grad()
    def images(self, corpus: Corpus) -> Mapping[str, Tensor]:
        with evaluating(self):
            visits = expected_visits(self, first_lines(corpus.splits["valid"], LINES_READ))
            matrix = self.cluster_transitions(visits)
        return {"transitions/clusters": matrix.sqrt()}

    def cluster_transitions(self, visits: Tensor) -> Tensor:
        """(M, M) p(c′ | c), the states of c weighted by their (Z,) visits, alike where there are none."""
        transitions = self.current().transitions
        share = visits.to(self.device, next(self.parameters()).dtype).view(self.clusters, self.size)
        share = F.normalize(share.where(share.sum(1, keepdim=True) > 0, torch.ones_like(share)), 1, 1)
        return torch.stack([share[c] @ transitions.leaving(c).exp().sum(2) for c in range(self.clusters)])

    def lasting_tables(self) -> Tables:
        tables = self.tables()
        return tables._replace(transitions=tables.transitions.kept())

    def tables(self) -> Tables:
        M, S = self.clusters, self.size
        kept = torch.arange(S, device=self.device).expand(M + 1, S)
        groups = kept.view(M + 1, -1, self.together)
        keep = max(1, round(groups.shape[1] * (1 - self.state_dropout)))
        if self.training and keep < groups.shape[1]:
            drawn = torch.rand(groups.shape[:2], device=self.device).topk(keep).indices
            kept = groups.gather(1, drawn[:, :, None].expand(-1, -1, self.together)).flatten(1)
        return Tables(kept, *self.distributions(kept[:M] + S * torch.arange(M, device=self.device)[:, None]))

    def _restrict(self, state: State, kept: Tensor) -> Tensor:
        """The (B, K) belief given that the state is a kept one; uniform where it cannot be."""
        return renormalised(state[0].gather(1, kept[state[1]]))


class Residual(nn.Module):
    """Res(x) = LayerNorm(ReLU(W2 h + b2) + h), h = ReLU(W1 x + b1), with dropout (Srivastava et al. 2014) after it."""

    def __init__(self, dim: int, dropout: float):
        super().__init__()
        self.inner, self.outer, self.norm = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x).relu()
        return self.dropout(self.norm(self.outer(h).relu() + h))


class FactoredEmbedding(nn.Module):
    """A vector for each state: its cluster's in one half, its own in the other."""

    def __init__(self, states: int, clusters: int, dim: int):
        super().__init__()
        self.size = states // clusters
        self.cluster, self.state = nn.Embedding(clusters, dim // 2), nn.Embedding(states, dim - dim // 2)

    def forward(self, states: Tensor) -> Tensor:
        return torch.cat([self.cluster(states // self.size), self.state(states)], -1)


def split(vectors: Tensor, rows: int) -> Tensor:
    """(N, d) vectors -> (rows, d), rows a multiple of N: each several times in turn, parted by noise."""
    copies = vectors.repeat_interleave(rows // len(vectors), 0)
    return copies + SPLIT_NOISE * copies.norm(dim=1, keepdim=True) / copies.shape[1] ** 0.5 * torch.randn_like(copies)


class NeuralBlockHMM(BlockHMM):
    """A `BlockHMM` whose distributions are computed from state vectors e_i by small networks:

        p(z_1 = i) ∝ exp(w·Res_s(e_i)),
        p(x | i)   ∝ exp(w_x·Res_e(e_i) + b_x) over the words of i's cluster,
    and transitions, from e_i and from the vectors v_j of the states as destination, are the subclass's; it may replace
    p(z_1), too.

    Vectors of states are drawn from N(0, 0.01): the paper's N(0, 1) are so long that they turn slowly. Of factored ones
    half is the cluster's, and they enter every network, and become v_j, through a residual layer of its own. Free v_j,
    and free e_i that are tied to them, are drawn from N(0, 1/d), by `lowrank_hmm` from N(0, 1/√d): with N(0, 1) the
    transitions of a fresh model are all but deterministic, which takes hundreds of steps to unlearn.

    Args:
        dim: d, the size of all vectors.
        embeddings: of states.
        tied: whether e_i are the states' vectors as destination, too.
        dropout: of what the networks make of a state, drawn for every batch.
        parent: folder of a run of the same model with fewer states, or features, from which this one starts, read when
            training begins. Every state is split into as many as it takes, alike but for a little noise, after Petrov,
            Barrett, Thibaux and Klein, "Learning accurate, compact, and interpretable tree annotation", ACL 2006.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        states: Size,
        clusters: Size,
        clustering: Clustering,
        dim: Size,
        embeddings: Embeddings,
        tied: bool,
        dropout: Dropout,
        state_dropout: Dropout,
        parent: str | None,
    ):
        super().__init__(
            vocabulary_size=vocabulary_size,
            states=states,
            clusters=clusters,
            clustering=clustering,
            state_dropout=state_dropout,
        )
        self.dim, self.embeddings, self.tied, self.dropout = dim, embeddings, tied, dropout
        self.factored = embeddings == "factored"
        self.parent = parent
        self.origin, self.emission = self._vectors(), self.residual()
        self.word = nn.Linear(dim, vocabulary_size)
        self.add_start()
        self.add_transitions()

    def add_start(self) -> None:
        """Make the networks and vectors that `first_states` needs and `transitions` does not."""
        self.start, self.first = self.residual(), nn.Linear(self.dim, 1, bias=False)

    def first_states(self, e: Tensor, transitions: Any) -> Tensor:
        """(M, K) log p(z_1) of the kept states, given their (M, K, d) vectors and the transitions between them."""
        return blocks.single(self.first(self.start(e))).flatten().log_softmax(0).view(e.shape[:2])

    @abstractmethod
    def add_transitions(self) -> None:
        """Make the networks and vectors that `transitions` needs."""

    @abstractmethod
    def transitions(self, e: Tensor, states: Tensor) -> Transitions:
        """Between the kept states, given their (M, K, d) vectors and (M, K) numbers."""

    def distributions(self, states: Tensor) -> tuple[Tensor, Tensor, Transitions]:
        e = self.origin(states)  # (M, K, d)
        emission = blocks.emission_table(self.emission(e), self.word.weight, self.word.bias, self.cluster)
        transitions = self.transitions(e, states)
        return self.first_states(e, transitions), emission, transitions

    def estimate(self, corpus: Corpus) -> None:
        """Deal out the words, or take them and all weights from the parent.

        Raises: UserError where the parent is no trained run, or cannot be split into this model.
        """
        if self.parent is None:
            super().estimate(corpus)
        else:
            _, parent = lmzoo.run.load_trained(self.parent, corpus, "model.parent")
            self._descend(parent)

    @torch.no_grad()
    def _descend(self, parent: nn.Module) -> None:
        if type(parent) is not type(self):
            raise UserError(
                f"model.parent={self.parent}: is of another kind ({type(parent).__name__}) than this model "
                f"({type(self).__name__}); choose a run of the same"
            )
        for option in ("clusters", "clustering", "dim", "embeddings", "tied", "feature_map", "block_features"):
            there, here = getattr(parent, option, None), getattr(self, option, None)
            if there != here:
                there, here = (str(value).lower() for value in (there, here))
                raise UserError(
                    f"model.parent={self.parent}: has model.{option}={there}, not {here}; set it to the same"
                )
        for option in ("states", "features"):
            there, here = getattr(parent, option, 1), getattr(self, option, 1)
            if here % there:
                raise UserError(
                    f"model.parent={self.parent}: its {there} {option} cannot be split into {here}; "
                    f"set model.{option} to a multiple of {there}"
                )
        weights = parent.state_dict()
        for name, own in self.state_dict().items():
            if own.shape != weights[name].shape:
                weights[name] = split(weights[name], len(own))
        self.load_state_dict(weights)

    def residual(self) -> nn.Module:
        """The network between the vectors of states and one of their uses."""
        last = Residual(self.dim, self.dropout)
        return nn.Sequential(Residual(self.dim, self.dropout), last) if self.factored else last

    def add_destination(self, scale: float) -> None:
        """Have what `destinations` needs; its numbers are at first about so large."""
        if not self.tied:
            self.destination = self._vectors()
        if self.factored:
            self.target = Residual(self.dim, self.dropout)
            nn.init.constant_(self.target.norm.weight, scale)
        else:
            for weight in (self.origin if self.tied else self.destination).parameters():
                nn.init.normal_(weight, std=scale)

    def destinations(self, e: Tensor, states: Tensor) -> Tensor:
        """(M, K, d) v_j of the states with vectors e."""
        v = e if self.tied else self.destination(states)
        return self.target(v) if self.factored else v

    def _vectors(self) -> nn.Module:
        if self.factored:
            vectors = FactoredEmbedding(self.states, self.clusters, self.dim)
        else:
            vectors = nn.Embedding(self.states, self.dim)
        for weight in vectors.parameters():
            nn.init.normal_(weight, std=0.1)
        return vectors
