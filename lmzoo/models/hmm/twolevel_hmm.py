"""An HMM whose transitions choose a cluster first, then a state of that cluster."""

from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.options import Bounds, Idle, NonNegative, Source, configured
from lmzoo.models.hmm.block_hmm import BlockHMM, BlockHMMOptions, BlockTables
from lmzoo.models.hmm.inference.imitation import cross_entropy
from lmzoo.models.hmm.inference.paths import Chain
from lmzoo.models.hmm.inference.tiles import local_tiles
from lmzoo.models.hmm.neural_distributions import NeuralDistributions, NeuralTransitions
from lmzoo.models.hmm.state_vectors import state_network
from lmzoo.numerics.precision import at_least_float32
from lmzoo.protocol.abilities import HasVectors
from lmzoo.protocol.model import LanguageModel, State, models


class TwoLevel(NamedTuple):
    """p(j | i) = p(c | i) p(j | c, i), p(j | c, i) ∝ exp(u_i·v_j) over the states j of cluster c."""

    arrival: Tensor
    """(M, K, M) log p(c | i)."""
    U: Tensor
    """(M, K, d) vectors of the states as origin."""
    V: Tensor
    """(M, K, d) vectors of the states as destination."""

    def tiles(self, source: Tensor, target: Tensor) -> Tensor:
        return local_tiles(self.arrival, self.U, self.V, source, target)

    def leaving(self, cluster: int) -> Tensor:
        M, K, _ = self.V.shape
        inside = at_least_float32(self.U[cluster] @ self.V.flatten(0, 1).T).view(K, M, K).log_softmax(2)
        return self.arrival[cluster][:, :, None] + inside


class TwoLevelHMMOptions(BlockHMMOptions):
    temperature: Annotated[float, Bounds(low=0.01, high=100)] = 1.0
    """τ, which divides the logits of p(j | c, i) outside training (Guo et al., "On calibration of modern neural
    networks", ICML 2017). Below 1 with state dropout, where each state had fewer competitors in training."""
    teacher: Source | None = None
    """a recurrent run with the same valid and test for knowledge distillation, Hinton et al. (2015): the model learns
    from its predictions and from the text. None: none."""
    teacher_weight: Annotated[NonNegative, Idle(("model.teacher", None))] = 1.0
    """weight of the cross-entropy with the teacher, relative to that with the text."""


class TwoLevelTransitions(NeuralTransitions):
    """The chain of `TwoLevelHMM`."""

    def __init__(self, options: TwoLevelHMMOptions, origin: nn.Module):
        super().__init__(options, origin)
        self.temperature = options.temperature

    def add_networks(self, options: BlockHMMOptions) -> None:
        self.boundary = nn.Parameter(0.1 * torch.randn(options.dim))
        self.arrival, self.transition = state_network(options), state_network(options)
        self.next_cluster = nn.Linear(options.dim, options.clusters)

    def first_states(self, e: Tensor, v: Tensor) -> Tensor:
        cluster = self.arrivals(self.boundary)  # (M,)
        inside = at_least_float32(v @ self.as_origin(self.boundary)).log_softmax(1)  # (M, K)
        return cluster[:, None] + inside

    def forward(self, e: Tensor, v: Tensor, states: Tensor) -> TwoLevel:
        return TwoLevel(self.arrivals(e), self.as_origin(e), v)

    def logprobs(self, e: Tensor, v: Tensor, source: Tensor, target: Tensor) -> Tensor:
        M, S = v.shape[:2]
        c, j = target // S, target % S
        order = c.argsort(stable=True)
        leaving = F.embedding(source[order], self.as_origin(e)).split(c.bincount(minlength=M).tolist())
        # (n, S) each
        logits = [at_least_float32(u @ arriving.T) for u, arriving in zip(leaving, v.unbind(), strict=True)]
        inside = torch.cat(logits).log_softmax(1).gather(1, j[order, None])[:, 0]
        return self.arrivals(e).flatten()[source * M + c] + torch.empty_like(inside).scatter(0, order, inside)

    def arrivals(self, e: Tensor) -> Tensor:
        """(…, d) e -> (…, M) log p(c | i)."""
        return at_least_float32(self.next_cluster(self.arrival(e))).log_softmax(-1)

    def as_origin(self, e: Tensor) -> Tensor:
        """(…, d) e -> (…, d) the vectors of the states as origin."""
        return self.transition(e) if self.training else self.transition(e) / self.temperature


@models.register("twolevel_hmm")
class TwoLevelHMM(BlockHMM):
    """p(j | i) = p(c | i) p(j | c, i), where c is the cluster of state j. For the rest see `NeuralDistributions`.

        p(c | i)    ∝ exp(w_c·Res_c(e_i) + b_c) over the M clusters,
        p(j | c, i) ∝ exp(Res_t(e_i)·v_j / τ) over the S states of c, with τ = 1 in training.
    p(z_1 = j) has the same form: the vector e_0 of the sentence boundary takes the place of e_i.

    A word determines its cluster, so no sum over all states is left. A step costs one tile, and a batch costs as many
    tiles as it has different pairs of consecutive clusters, no matter how many other clusters there are. The
    factorisation is that of class-based models (Goodman, "Classes for fast maximum entropy training", 2001).

    With a teacher it imitates the predictions of another model in training: see `cross_entropy`.
    """

    imitated: tuple[HasVectors] | None = None
    """The teacher; in a tuple, as it is no part of this model."""
    imitation: Tensor | float = 0.0
    """Its cross-entropy in the last window of training."""

    @configured(TwoLevelHMMOptions)
    def __init__(self, vocabulary_size: int, options: TwoLevelHMMOptions):
        super().__init__(vocabulary_size, options)
        self.distributions = NeuralDistributions(vocabulary_size, options, TwoLevelTransitions)
        self.teacher, self.teacher_weight = options.teacher, options.teacher_weight

    def imitate(self, teacher: LanguageModel) -> None:
        if not (isinstance(teacher, HasVectors) and hasattr(teacher.output, "predict_clusters")):
            raise UserError("only an rnn, gru or lstm can be a teacher", "name a recurrent run")
        self.imitated = (teacher,)

    def after_training_window(
        self, tokens: Tensor, state: State, tables: BlockTables, chain: Chain, beliefs: Tensor
    ) -> None:
        if self.imitated is None:
            return
        (teacher,), transitions = self.imitated, tables.transitions
        assert isinstance(teacher, LanguageModel)
        assert isinstance(transitions, TwoLevel)
        with torch.no_grad():
            vectors, _ = teacher.vectors(tokens, teacher.initial_state(len(tokens)))
            taught = teacher.output.predict_clusters(vectors.flatten(0, 1), self.cluster, self.clusters)
        first = tables.start.logsumexp(1).expand_as(transitions.arrival[:1])  # (1, K, M)
        source = torch.cat([state[1][:, None], chain.block[:, :-1]], 1)
        arrival = torch.cat([transitions.arrival, first])
        self.imitation = cross_entropy(
            taught, tokens, source, beliefs, chain.emission, arrival, tables.emission, self.cluster
        )

    def penalty(self) -> Tensor | float:
        """The weighted cross-entropy with the teacher in the last window, where there is one."""
        imitation, self.imitation = self.imitation, 0.0
        return imitation if self.imitated is None else self.teacher_weight * imitation
