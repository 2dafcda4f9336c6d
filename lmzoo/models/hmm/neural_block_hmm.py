"""HMMs of states in clusters whose distributions are computed from state vectors (Chiu and Rush, EMNLP 2020).

https://aclanthology.org/2020.emnlp-main.103
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Literal, Unpack

from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.options import Dropout, Size
from lmzoo.corpus import Corpus
from lmzoo.models.hmm.block_hmm import BlockHMM, BlockHMMOptions, Transitions
from lmzoo.models.hmm.inference import blocks
from lmzoo.models.hmm.splitting import split_weights
from lmzoo.models.hmm.state_vectors import FactoredEmbedding, Residual
from lmzoo.protocol.model import Trained


class NeuralBlockHMMOptions(BlockHMMOptions):
    """The options of every `NeuralBlockHMM`."""

    dim: Size
    embeddings: Literal["free", "factored"]
    tied: bool
    dropout: Dropout
    parent: str | None


def block_options(options: NeuralBlockHMMOptions) -> BlockHMMOptions:
    """Those of the options that a `BlockHMM` without vectors has."""
    return {
        "states": options["states"],
        "clusters": options["clusters"],
        "clustering": options["clustering"],
        "state_dropout": options["state_dropout"],
    }


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

    inherited = ("clusters", "clustering", "dim", "embeddings", "tied")
    """Options that a parent must have as they are here."""
    divided = ("states",)
    """Options that must be multiples of what they are in a parent."""

    def __init__(self, *, vocabulary_size: int, **options: Unpack[NeuralBlockHMMOptions]):
        super().__init__(vocabulary_size=vocabulary_size, **block_options(options))
        self.dim, self.embeddings, self.tied = options["dim"], options["embeddings"], options["tied"]
        self.dropout, self.parent = options["dropout"], options["parent"]
        if self.parent is not None:
            self.starts_from = "model.parent", [self.parent]
        self.factored = self.embeddings == "factored"
        self.origin, self.emission = self._vectors(), self.residual()
        self.word = nn.Linear(self.dim, vocabulary_size)
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
        """Deal out the words, unless the parent has done so."""
        if self.parent is None:
            super().estimate(corpus)

    def inherit(self, trained: Sequence[Trained]) -> None:
        """Take clusters and all weights from the parent.

        Raises: UserError where its states cannot be split into those of this model.
        """
        (parent,) = trained
        if type(parent.model) is not type(self):
            raise UserError(
                f"model.parent={parent.folder}: is of another kind ({type(parent.model).__name__}) than this model "
                f"({type(self).__name__})",
                "choose a run of the same",
            )
        for option in self.inherited:
            there, here = (str(getattr(model, option)).lower() for model in (parent.model, self))
            if there != here:
                raise UserError(
                    f"model.parent={parent.folder}: has model.{option}={there}, not {here}", "set it to the same"
                )
        for option in self.divided:
            there, here = getattr(parent.model, option), getattr(self, option)
            if here % there:
                raise UserError(
                    f"model.parent={parent.folder}: its {there} {option} cannot be split into {here}",
                    f"set model.{option} to a multiple of {there}",
                )
        split_weights(parent.model, self)

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
