"""The conditional random field: a log-linear chain over lexical features.

Lafferty, McCallum & Pereira, "Conditional random fields", ICML 2001; trained by L-BFGS as in Sha & Pereira, "Shallow
parsing with conditional random fields", HLT-NAACL 2003, https://aclanthology.org/N03-1028.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from lmzoo.core.options import NonNegative, Size, configured
from lmzoo.labels.chain import Scores, batches, log_partition, score
from lmzoo.labels.dense import Dense, DenseOptions
from lmzoo.labels.formats import Sentence
from lmzoo.labels.linear_chain import LexicalChain, LexicalOptions
from lmzoo.labels.model import StateDict, labellers
from lmzoo.numerics.owlqn import Search

BATCH = 8192
"""The number of words and padding per batch of log Z."""

MEMORY = 6
"""The number of steps in the memory of L-BFGS."""

PATIENCE = 3
"""The number of consecutive iterations with too small a decrease of the loss that ends training."""

VARIANCE = 0.1
"""An estimate of the variance of a label given a feature, for the initial curvature of its weight."""


class CrfOptions(LexicalOptions, DenseOptions):
    l2: NonNegative = 0.3
    """penalty: this times the sum of the squared weights."""
    tolerance: NonNegative = 1e-4
    """training stops when three iterations in a row each reduce the loss by less than this fraction."""
    iterations: Size = 300
    """maximum number of iterations."""


@labellers.register("crf")
class Crf(LexicalChain):
    """p(y | x) = exp(s(y)) / Z; the weights minimise −Σ log p(y | x) + l2 Σ w².

    Features have nonzero weights only with labels that they occur with in train; `Dense` features, with all labels.
    """

    saved = (*LexicalChain.saved, "dense", "dense_weights")

    @configured(CrfOptions)
    def __init__(self, options: CrfOptions):
        super().__init__(**options.inherited(LexicalOptions))
        self.dense = Dense(**options.inherited(DenseOptions))
        self.l2, self.tolerance, self.steps = options.l2, options.tolerance, options.iterations
        self.small = 0
        """The number of consecutive last iterations with too small a decrease of the loss."""

    def start(self, sentences: Sequence[Sentence], seed: int) -> None:
        self.vectors = self.dense.start(sentences, self.open_model)
        self.rows, gold, lengths = self.read(sentences)
        self.by_feature, self.gold, K = self.rows.mT, gold, len(self.labels)
        begins = torch.tensor([0, *lengths]).cumsum(0)
        self.batches = []
        """Of each batch, word indices (B, T), N on padding, and the lengths of its sentences."""
        for batch in batches(lengths, BATCH):
            words = [torch.arange(int(begins[i]), int(begins[i + 1])) for i in batch]
            words = torch.nn.utils.rnn.pad_sequence(words, batch_first=True, padding_value=len(gold))
            self.batches.append((words, torch.tensor([lengths[i] for i in batch])))
        pairs = self.rows.columns.long() * K + gold[self.rows.owners()]
        self.pairs, counts = pairs.unique(return_counts=True)
        """The indices of the weights of features in their table."""
        squares = self.vectors.square().sum(0).repeat_interleave(K) / K
        variances = torch.cat([counts, squares, torch.full((K * K + K,), len(gold) / K)])
        self.curvature = variances * VARIANCE + 2 * self.l2
        x = torch.zeros(len(self.curvature))
        self.search = Search(self.objective, x, l1=torch.zeros(len(x)), curvature=self.curvature, memory=MEMORY)
        self._set_weights(x)

    def _tables(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(F, K) weights of features, (D, K) of dense ones, (K, K) of transitions, and (K,) of the first label."""
        F, K, D = len(self.lexical.numbers), len(self.labels), self.vectors.shape[1]
        features, dense, moves, start = x.split([len(self.pairs), D * K, K * K, K])
        table = x.new_zeros(F * K).index_copy_(0, self.pairs, features).view(F, K)
        return table, dense.view(D, K), moves.view(K, K), start

    def _set_weights(self, x: Tensor) -> None:
        """Set the weights of the labeller."""
        table, self.dense_weights, moves, start = self._tables(x)
        self.weights = table, moves, start

    def objective(self, x: Tensor) -> tuple[float, Tensor]:
        """−Σ log p(y | x) + l2 Σ w² in nats, and its gradient."""
        table, dense, moves, start = self._tables(x)
        moves, start = (part.clone().requires_grad_() for part in (moves, start))
        each = self.rows @ table + self.vectors @ dense
        emission = torch.cat([each, each.new_zeros(1, len(self.labels))]).requires_grad_()
        gold = torch.cat([self.gold, self.gold.new_zeros(1)])
        value = 0.0
        for words, lengths in self.batches:
            scores = Scores(emission[words], moves, start, lengths)
            loss = (log_partition(scores) - score(scores, gold[words])).double().sum()
            loss.backward()
            value += float(loss.detach())
        assert emission.grad is not None
        features = (self.by_feature @ emission.grad[:-1]).flatten()[self.pairs]
        dense = (self.vectors.T @ emission.grad[:-1]).flatten()
        gradient = torch.cat(
            [features, dense, *(part.grad.flatten() for part in (moves, start) if part.grad is not None)]
        )
        return value + self.l2 * float(x.double().square().sum()), gradient + 2 * self.l2 * x

    def step(self, number: int) -> dict[str, float]:
        decrease = self.search.step()
        x, value, gradient = self.search.point
        self._set_weights(x)
        self.small = self.small + 1 if decrease is not None and decrease <= self.tolerance * value else 0
        if decrease is None or self.small == PATIENCE:
            self.steps = number + 1
        return {"train/loss": value / len(self.gold), "train/gradient_norm": float(gradient.norm())}

    def state(self) -> StateDict:
        return {"steps": torch.tensor(self.steps), "small": torch.tensor(self.small), **self.search.state_dict()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.steps, self.small = int(state["steps"]), int(state["small"])
        self.search.load_state_dict(state)
        self._set_weights(self.search.point.x)

    def emission(self, sentences: Sequence[Sentence]) -> Tensor:
        return super().emission(sentences) + self.dense.rows(sentences) @ self.dense_weights
