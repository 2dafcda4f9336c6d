"""Block-sparse HMMs: hidden states and words come in clusters.

Chiu and Rush, "Scaling Hidden Markov Language Models", EMNLP 2020, https://aclanthology.org/2020.emnlp-main.103
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from lmzoo.core.errors import UserError, format_value
from lmzoo.core.options import Dropout, Idle, Initial, Options, Size, Source
from lmzoo.corpus import EOS_ID, Corpus
from lmzoo.models.hmm.distillation import distil
from lmzoo.models.hmm.inference import blocks
from lmzoo.models.hmm.inference.chains import BlockChain
from lmzoo.models.hmm.inference.paths import Chain, renormalised
from lmzoo.models.hmm.reading import expected_visits, state_posteriors, states_of_words
from lmzoo.numerics.gpu_sync import on_host, to_device_async
from lmzoo.protocol.abilities import Encoder, HiddenChain
from lmzoo.protocol.model import LanguageModel, State, Trained, evaluating
from lmzoo.words.brown import Clustering, word_clusters

if TYPE_CHECKING:
    from lmzoo.models.hmm.neural_distributions import NeuralDistributions

SPLIT_NOISE = 0.1
"""Length of the noise that is added to the vectors of new states, relative to their length."""

LINES_READ = 1000
"""How many lines of the valid split `images` reads, to see how much each hidden state is used."""


class Transitions(Protocol):
    """p(z_t | z_{t-1}) over the K hidden states of each of M clusters that state dropout leaves active, in nats."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        """(P, K, K) from the states of source[p] to those of target[p], for P distinct pairs on the CPU, by source."""
        ...

    def leaving(self, cluster: int) -> Tensor:
        """(K, M, K) from the states of one cluster to the states of all clusters."""
        ...


class BlockTables(NamedTuple):
    """The distributions over the K hidden states of each cluster that state dropout leaves active, in nats."""

    active: Tensor
    """(M + 1, K) int64 the active states, numbered 0 to S - 1 within their cluster; the boundary's row is any K."""
    start: Tensor
    """(M, K) log p(z_1)."""
    emission: Tensor
    """(V, K) log p(x | z) of a word under the states of its cluster."""
    transitions: Transitions


class BlockHMMOptions(Options):
    states: Size = 1024
    """Z = MS, the number of hidden states, a multiple of clusters."""
    clusters: Size = 64
    """M, the number of clusters of words, and of states."""
    clustering: Annotated[Clustering, Initial()] = "brown"
    """how words are clustered: Brown clustering; uniformly at random; or by frequency, so that all clusters have an
    equal share of the text."""
    state_dropout: Dropout = 0.5
    """fraction of each cluster's states that is dropped, drawn per batch; 0 for small models and short runs."""
    dim: Size = 256
    """d, the size of all vectors."""
    embeddings: Literal["free", "factored"] = "free"
    """vectors of states: one for each, or half of it shared by its cluster."""
    tied: bool = False
    """whether a state has one vector as origin and as destination of a transition."""
    dropout: Dropout = 0.0
    """dropout rate of the outputs of the networks of states, drawn per batch."""
    parent: Source | None = None
    """folder of a run of the same model with fewer states or features, which are split when training starts; see
    `BlockHMM.split`."""
    distilled_from: Source | None = None
    """folder of a run whose embeddings of the text are clustered when training starts, which gives every token a target
    state; see `lmzoo.models.hmm.distillation`."""
    distillation_epochs: Annotated[Size, Idle(("model.distilled_from", None))] = 6
    """number of epochs of training on these states."""


class BlockHMM(LanguageModel):
    """An HMM with M clusters, each of S hidden states and of some words.

    A word is emitted by the states of its own cluster alone, so inference is exact and local. State dropout draws
    round((1 - state_dropout) S) states of each cluster for every batch, at least one and without replacement, and acts
    as if there were no others. Where states are left out together, it draws groups of them in the same way.
    A subclass sets `distributions`, which gives the probabilities of the states that are left.

    The protocol's state is the (B, S) log-belief over the hidden states of the last word's cluster, and (B,) that
    cluster; M stands for a sentence boundary. The belief in a state that dropout has left out is -inf.

    Raises: UserError where there are more clusters than words, states is not a multiple of clusters, or there are both
        a parent and a run to distil from.
    """

    autocast = True
    same_as_parent: ClassVar[tuple[str, ...]] = ("clusters", "clustering", "dim", "embeddings", "tied")
    """Options that must have the parent's values."""
    multiples_of_parent: ClassVar[tuple[str, ...]] = ("states",)
    """Options that must be multiples of the parent's values."""
    distributions: "NeuralDistributions"
    """Makes of (M, K) states and of `cluster` the last three of `BlockTables`, as if there were only
    these states, in whole groups of `group_size`."""
    group_size: int = 1
    """How many consecutive states of a cluster state dropout leaves out together; a divisor of S."""
    encoder: tuple[Encoder] | None = None
    """The model to distil from, until that is done; in a tuple, as it is no part of this one."""

    def __init__(self, vocabulary_size: int, options: BlockHMMOptions):
        super().__init__()
        states, clusters = options.states, options.clusters
        if clusters > vocabulary_size:
            raise UserError(
                f"model.clusters={clusters}: there are only {vocabulary_size} words", "set model.clusters to fewer"
            )
        if states % clusters:
            raise UserError(
                f"model.states={states} is not a multiple of model.clusters={clusters}",
                f"the nearest that is: {max(1, round(states / clusters)) * clusters}",
            )
        if options.parent is not None and options.distilled_from is not None:
            raise UserError(
                f"model.distilled_from={options.distilled_from}: the states start from model.parent={options.parent}",
                "leave one out; a run that was distilled can be a parent",
            )
        for option, run in (("model.parent", options.parent), ("model.distilled_from", options.distilled_from)):
            if run is not None:
                self.starts_from = option, [run]
        self.options, self.vocabulary_size, self.states, self.clusters = options, vocabulary_size, states, clusters
        self.size = states // clusters
        self.cluster = torch.nn.Buffer(clusters - 1 - torch.arange(vocabulary_size) % clusters)
        """(V,) int64 the cluster of each word."""

    def inherit(self, trained: Sequence[Trained]) -> None:
        """Split the states of the parent, or take the model to distil from, until `estimate`."""
        (run,) = trained
        if self.options.distilled_from is None:
            self.split(run)
            return
        if not isinstance(run.model, Encoder):
            problem = f"model.distilled_from={run.folder}: model={run.options['name']} has no embeddings"
            raise UserError(problem, "choose a run of an rnn, gru, lstm, lds or hidden Markov model")
        self.encoder = (run.model.to(self.device),)

    @torch.no_grad()
    def split(self, parent: Trained) -> None:
        """Take clusters and weights from a parent with fewer states or features, each of which becomes several.

        The new states are copies of the old one with a little noise. Petrov, Barrett, Thibaux and Klein, "Learning
        accurate, compact, and interpretable tree annotation", ACL 2006, https://aclanthology.org/P06-1055.

        Raises: UserError for a run of another model, and for options that are not as `same_as_parent` and
            `multiples_of_parent` say.
        """
        run, smaller = f"model.parent={parent.folder}", parent.model
        if type(smaller) is not type(self):
            problem = f"{run}: is a run of model={parent.options['name']}"
            raise UserError(problem, "choose a run of the model that is trained")
        for option in self.same_as_parent:
            there, here = (format_value(getattr(each.options, option)) for each in (smaller, self))
            if there != here:
                raise UserError(f"{run}: has model.{option}={there}, not {here}", "set it to the same")
        for option in self.multiples_of_parent:
            there, here = (getattr(each.options, option) for each in (smaller, self))
            if here % there:
                problem = f"{run}: its {there} {option} cannot be split into {here}"
                raise UserError(problem, f"set model.{option} to a multiple of {there}")
        weights = smaller.state_dict()
        for name, weight in self.state_dict().items():
            if weight.shape != weights[name].shape:
                rows = weights[name].repeat_interleave(len(weight) // len(weights[name]), 0)
                length = SPLIT_NOISE * rows.norm(dim=1, keepdim=True) / rows.shape[1] ** 0.5
                weights[name] = rows + length * torch.randn_like(rows)
        self.load_state_dict(weights)

    def estimate(self, corpus: Corpus) -> None:
        """Put the words into clusters, those of the parent if there is one, and distil hidden states if asked to.

        The clusters are the encoder's classes if it has as many of the same kind, as a teacher with them costs less.
        """
        options = self.options
        if options.parent is None:
            (encoder,) = self.encoder or (None,)
            classes = getattr(getattr(encoder, "output", None), "classes", None)
            if classes and (classes.S.out_features, classes.clustering) == (options.clusters, options.clustering):
                self.cluster.copy_(classes.word_class)
            else:
                text = corpus.splits["train"]
                self.cluster.copy_(word_clusters(options.clustering, text, self.vocabulary_size, self.clusters))
        if self.encoder is not None:
            (encoder,), self.encoder = self.encoder, None
            distil(self, corpus, encoder, options.distillation_epochs)

    def initial_state(self, batch_size: int) -> State:
        belief = next(self.parameters()).new_full((batch_size, self.size), -math.log(self.size))
        return belief, to_device_async(torch.full((batch_size,), self.clusters), self.device)

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        tables: BlockTables = self.current_tables()
        chain = self.chain(tokens, state, tables)
        logprobs, beliefs = blocks.forward_pass(*chain[:4])
        if self.training:
            self.after_training_window(tokens, state, tables, chain, beliefs)
        last = to_device_async(on_host(chain.block)[:, -1], self.device)
        whole = beliefs.new_full((len(tokens), self.size), -torch.inf)
        return logprobs, (whole.scatter(1, chain.states[last] % self.size, beliefs[-1]), last)

    def after_training_window(
        self, tokens: Tensor, state: State, tables: BlockTables, chain: Chain, beliefs: Tensor
    ) -> None:
        """Compute what `penalty` needs of a window of training, given its (T + 1, B, K) log-beliefs."""

    def chain(self, tokens: Tensor, state: State, given: BlockTables | None = None) -> Chain:
        """What a (B, T) window needs of ``given`` or current tables; the block of a step is the cluster of its word.

        A step from cluster c to c′ has the code cM + c′, and c = M at the boundary. The tiles are ordered by code, so
        the boundary's come last; every row of theirs is the start distribution. An example with M = 3, for a text that
        begins a sentence::

            cluster of the word      2     0     0     1
            step                   3→2   2→0   0→0   0→1
            code                    11     6     0     1
            pair                     3     2     0     1      tiles: 0→0, 0→1, 2→0, 3→2
        """
        tables: BlockTables = given or self.current_tables()
        M = self.clusters
        target = on_host(self.cluster)[on_host(tokens)]  # (B, T)
        source = torch.cat([on_host(state[1])[:, None], target[:, :-1]], dim=1)
        codes, pair = torch.unique(source * M + target, return_inverse=True)  # (P,), (B, T)
        inside, outside = codes[codes < M * M], codes[codes >= M * M] - M * M
        first = tables.start[to_device_async(outside, self.device)]  # (P₁, K), of pairs that come from the boundary
        tiles = tables.transitions.tiles(inside // M, inside % M)  # (P - P₁, K, K)
        tiles = torch.cat([tiles, first[:, None].expand(-1, first.shape[1], -1)])
        states = tables.active[:M] + self.size * torch.arange(M, device=self.device)[:, None]
        belief, emission = self._active_belief(state, tables.active), F.embedding(tokens, tables.emission)
        return Chain(belief, tiles, pair, emission, to_device_async(target, self.device), states)

    def predict(self, state: State) -> Tensor:
        tables = self.current_tables()
        rows = [tables.emission.new_empty(0, self.vocabulary_size)]  # of a batch without rows
        for belief, previous in zip(self._active_belief(state, tables.active), state[1].tolist(), strict=True):
            if previous == self.clusters:
                prior = tables.start
            else:
                prior = (belief[:, None, None] + tables.transitions.leaving(previous)).logsumexp(0)  # (M, K)
            rows.append((prior[self.cluster] + tables.emission).logsumexp(1)[None])
        return torch.cat(rows)

    def words(self, z: int) -> Tensor:
        """(V,) log p(x_t | z_t = z) in nats."""
        tables = self.current_tables()
        emitted = self.cluster == z // self.size
        return tables.emission[:, z % self.size].masked_fill(~emitted, -torch.inf)

    def successors(self, z: int) -> Tensor:
        """(Z,) log p(z_t | z_{t-1} = z) in nats."""
        tables = self.current_tables()
        return tables.transitions.leaving(z // self.size)[z % self.size].flatten()

    def next_words(self, z: int) -> Tensor:
        """(V,) log p(x_t | z_{t-1} = z) in nats."""
        certain = torch.arange(self.size, device=self.device) == z % self.size
        belief = torch.where(certain, 0.0, -torch.inf).to(next(self.parameters()).dtype)
        return self.predict((belief[None], torch.tensor([z // self.size], device=self.device)))[0]

    def hidden_chain(self) -> HiddenChain:
        """See `lmzoo.protocol.abilities.HasChain`."""
        return BlockChain(self.current_tables(), self.cluster)

    embed = state_posteriors

    def word_vectors(self) -> Mapping[str, Tensor]:
        return {"states": states_of_words(self)}

    @torch.no_grad()
    def images(self, corpus: Corpus) -> Mapping[str, Tensor]:
        text = corpus.splits["valid"]
        last = (text == EOS_ID).nonzero()[:LINES_READ][-1]
        with evaluating(self):
            visits = expected_visits(self, text[: int(last) + 1])
            return {"transitions/clusters": self.cluster_transitions(visits).sqrt()}

    def cluster_transitions(self, visits: Tensor) -> Tensor:
        """(M, M) p(c′ | c), the states of c weighted by their (Z,) visits, or equally where c has no visits."""
        transitions = self.current_tables().transitions
        share = visits.to(self.device, next(self.parameters()).dtype).view(self.clusters, self.size)
        share = F.normalize(share.where(share.sum(1, keepdim=True) > 0, torch.ones_like(share)), 1, 1)
        return torch.stack([share[c] @ transitions.leaving(c).exp().sum(2) for c in range(self.clusters)])

    def tables(self) -> BlockTables:
        M, S, group_size = self.clusters, self.size, self.group_size
        active = torch.arange(S, device=self.device).expand(M + 1, S)
        groups = active.view(M + 1, -1, group_size)
        keep = max(1, round(groups.shape[1] * (1 - self.options.state_dropout)))
        if self.training and keep < groups.shape[1]:
            drawn = torch.rand(groups.shape[:2], device=self.device).topk(keep).indices
            active = groups.gather(1, drawn[:, :, None].expand(-1, -1, group_size)).flatten(1)
        states = active[:M] + S * torch.arange(M, device=self.device)[:, None]
        return BlockTables(active, *self.distributions(states, self.cluster))

    def _active_belief(self, state: State, active: Tensor) -> Tensor:
        """The (B, K) belief given that the last word's hidden state was an active one; uniform where it was none."""
        return renormalised(state[0].gather(1, active[state[1]]))
