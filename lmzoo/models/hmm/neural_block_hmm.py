"""The base class of block-sparse HMMs whose distributions are computed from state vectors (Chiu and Rush 2020)."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lmzoo.core.errors import UserError, plain
from lmzoo.core.options import Count, Dropout, Idle, Size, Source, configured
from lmzoo.corpus import Corpus
from lmzoo.models.hmm.block_hmm import BlockHMM, BlockHMMOptions, Transitions
from lmzoo.models.hmm.distillation import distil
from lmzoo.models.hmm.inference.emissions import emission_table, word_logprobs
from lmzoo.models.hmm.state_vectors import FactoredEmbedding, Residual
from lmzoo.numerics.precision import at_least_float32
from lmzoo.protocol.abilities import Encoder
from lmzoo.protocol.model import Trained

OfNetworks = Idle(("model.parameterisation", "table"))

SPLIT_NOISE = 0.1
"""Length of the noise that is added to the vectors of new states, relative to their length."""


class NeuralBlockHMMOptions(BlockHMMOptions):
    """The options of every `NeuralBlockHMM`."""

    dim: Annotated[Size, OfNetworks] = 256
    """d, the size of all vectors."""
    embeddings: Annotated[Literal["free", "factored"], OfNetworks] = "free"
    """the vectors of states: each state has its own, or half of it is that of its cluster."""
    tied: Annotated[bool, OfNetworks] = False
    """whether a state has one vector as origin and as destination of a transition."""
    dropout: Annotated[Dropout, OfNetworks] = 0.0
    """share of the outputs of the networks of states that is set to 0, drawn for every batch."""
    parent: Source | None = None
    """folder of a run of the same model with fewer states or features, which are split when training starts; see
    `NeuralBlockHMM.inherit`."""
    distilled_from: Annotated[Source | None, OfNetworks] = None
    """folder of a run whose embeddings of the text are clustered when training starts, so that every token has a hidden
    state to learn from; see `lmzoo.models.hmm.distillation`."""
    distillation_epochs: Annotated[Count, OfNetworks, Idle(("model.distilled_from", None))] = 6
    """epochs of training with these states known."""


class NeuralBlockHMM(BlockHMM):
    """A `BlockHMM` whose distributions are computed from state vectors e_i by small networks:

        p(z_1 = i) ∝ exp(w·Res_s(e_i)),
        p(x | i)   ∝ exp(w_x·Res_e(e_i) + b_x) over the words of i's cluster.

    The subclass defines the transitions, from e_i and from the vectors v_j of the states as destination. It may replace
    p(z_1), too.

    The vectors of states are drawn from N(0, 0.01). The paper draws them from N(0, 1), but such long vectors change
    their direction slowly. A factored vector has one half from its cluster. Factored vectors pass a further residual
    layer before every network, and another to become v_j. Free v_j, and free e_i that are tied to them, are drawn from
    N(0, 1/d), or from N(0, 1/√d) by `lowrank_hmm`; from N(0, 1) the first transitions would be almost deterministic.
    """

    same_as_parent: ClassVar[tuple[str, ...]] = ("clusters", "clustering", "dim", "embeddings", "tied")
    """Options that must have the parent's values."""
    multiples_of_parent: ClassVar[tuple[str, ...]] = ("states",)
    """Options that must be multiples of the parent's values."""
    encoder: tuple[Encoder] | None = None
    """The model to distil from, until that is done; in a tuple, as it is no part of this one."""

    @configured(NeuralBlockHMMOptions)
    def __init__(self, vocabulary_size: int, options: NeuralBlockHMMOptions):
        super().__init__(vocabulary_size, **options.inherited(BlockHMMOptions))
        self.dim, self.embeddings, self.tied = options.dim, options.embeddings, options.tied
        self.dropout, self.parent = options.dropout, options.parent
        self.distilled_from, self.distillation_epochs = options.distilled_from, options.distillation_epochs
        if self.parent is not None and self.distilled_from is not None:
            raise UserError(
                f"model.distilled_from={self.distilled_from}: the states start from model.parent={self.parent}",
                "leave one out; a run that was distilled can be a parent",
            )
        for option, run in (("model.parent", self.parent), ("model.distilled_from", self.distilled_from)):
            if run is not None:
                self.starts_from = option, [run]
        self.factored = self.embeddings == "factored"
        self.origin, self.emission = self._vectors(), self.residual()
        self.word = nn.Linear(self.dim, vocabulary_size)
        self.add_start()
        self.add_transitions()

    def add_start(self) -> None:
        """Make the networks and vectors that `first_states` needs and `transitions` does not."""
        self.start, self.first = self.residual(), nn.Linear(self.dim, 1, bias=False)

    def first_states(self, e: Tensor, v: Tensor) -> Tensor:
        """(M, K) log p(z_1) of the kept states, given their (M, K, d) vectors as origin and as destination."""
        return at_least_float32(self.first(self.start(e))).flatten().log_softmax(0).view(e.shape[:2])

    @abstractmethod
    def add_transitions(self) -> None:
        """Make the networks and vectors that `transitions` needs."""

    @abstractmethod
    def transitions(self, e: Tensor, v: Tensor, states: Tensor) -> Transitions:
        """The transitions between the kept (M, K) states, given their (M, K, d) vectors as origin and destination."""

    @abstractmethod
    def transition_logprobs(self, e: Tensor, v: Tensor, source: Tensor, target: Tensor) -> Tensor:
        """(N,) log p(target | source) without state dropout.

        Args:
            e: (n, d) vectors of the different states that are left.
            v: (M, S, d) the vectors of all states as destination.
            source: (N,) rows of e.
            target: (N,) states.
        """

    def distributions(self, states: Tensor) -> tuple[Tensor, Tensor, Transitions]:
        e = self.origin(states)  # (M, K, d)
        v = self.destinations(e, states)
        emission = emission_table(self.emission(e), self.word.weight, self.word.bias, self.cluster)
        return self.first_states(e, v), emission, self.transitions(e, v, states)

    def joint_logprobs(self, source: Tensor, target: Tensor, words: Tensor) -> Tensor:
        """The terms of the complete-data log-likelihood, without state dropout.

        Args:
            source, target: (N,) z_{t-1} and z_t; z_{t-1} is -1 where a chain begins.
            words: (N,) x_t, words of the cluster of z_t.

        Returns: (N,) log p(z_t | z_{t-1}) + log p(x_t | z_t) in nats.
        """
        states = torch.arange(self.states, device=self.device).view(self.clusters, self.size)
        e = self.origin(states)
        v = self.destinations(e, states)
        different, place = torch.cat([source, target]).unique(return_inverse=True)
        own = F.embedding(different.clamp_min(0), e.flatten(0, 1))  # (n, d)
        before, now = place.split(len(target))
        emitted = word_logprobs(self.emission(own), self.word.weight, self.word.bias, self.cluster, now, words)
        arrived = self.transition_logprobs(own, v, before, target)
        return emitted + torch.where(source < 0, self.first_states(e, v).flatten()[target], arrived)

    def estimate(self, corpus: Corpus) -> None:
        """Put the words into clusters, unless the parent's clusters are used, and distil hidden states if asked to."""
        if self.parent is None:
            super().estimate(corpus)
        if self.encoder is not None:
            (encoder,), self.encoder = self.encoder, None
            distil(self, corpus, encoder, self.distillation_epochs)

    @torch.no_grad()
    def inherit(self, trained: Sequence[Trained]) -> None:
        """Take the clusters of words and all weights from the parent, each of whose states becomes several.

        A run to distil from is only kept until `estimate`.

        The new states are copies of the old one with a little noise. Petrov, Barrett, Thibaux and Klein, "Learning
        accurate, compact, and interpretable tree annotation", ACL 2006, https://aclanthology.org/P06-1055.

        Raises: UserError for a run of another model, and for options that are not as `same_as_parent` and
            `multiples_of_parent` say.
        """
        (parent,) = trained
        if self.distilled_from is not None:
            if not isinstance(parent.model, Encoder):
                problem = f"model.distilled_from={parent.folder}: model={parent.options['name']} has no embeddings"
                raise UserError(problem, "choose a run of an rnn, gru, lstm, lds or hidden Markov model")
            self.encoder = (parent.model.to(self.device),)
            return
        run = f"model.parent={parent.folder}"
        if type(parent.model) is not type(self):
            raise UserError(
                f"{run}: is a run of model={parent.options['name']}", "choose a run of the model that is trained"
            )
        for option in self.same_as_parent:
            there, here = (plain(getattr(model, option)) for model in (parent.model, self))
            if there != here:
                raise UserError(f"{run}: has model.{option}={there}, not {here}", "set it to the same")
        for option in self.multiples_of_parent:
            there, here = getattr(parent.model, option), getattr(self, option)
            if here % there:
                problem = f"{run}: its {there} {option} cannot be split into {here}"
                raise UserError(problem, f"set model.{option} to a multiple of {there}")
        weights = parent.model.state_dict()
        for name, weight in self.state_dict().items():
            if weight.shape != weights[name].shape:
                rows = weights[name].repeat_interleave(len(weight) // len(weights[name]), 0)
                length = SPLIT_NOISE * rows.norm(dim=1, keepdim=True) / rows.shape[1] ** 0.5
                weights[name] = rows + length * torch.randn_like(rows)
        self.load_state_dict(weights)

    def residual(self) -> nn.Module:
        """A network from the vectors of states to one of their uses."""
        last = Residual(self.dim, self.dropout)
        return nn.Sequential(Residual(self.dim, self.dropout), last) if self.factored else last

    def add_destination(self, scale: float) -> None:
        """Make what `destinations` needs; the standard deviation of its numbers is at first about ``scale``."""
        if not self.tied:
            self.destination = self._vectors()
        if self.factored:
            self.target = Residual(self.dim, self.dropout)
            nn.init.constant_(self.target.norm.weight, scale)
        else:
            for weight in (self.origin if self.tied else self.destination).parameters():
                nn.init.normal_(weight, std=scale)

    def destinations(self, e: Tensor, states: Tensor) -> Tensor:
        """(M, K, d) v_j of (M, K) states, given their (M, K, d) vectors e."""
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
