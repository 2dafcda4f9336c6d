"""n-gram models: counts, smoothing, backing off."""

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.options import Count, NonNegative, Size
from lmzoo.core.registry import models
from lmzoo.corpus import Corpus
from lmzoo.models.ngram.smoothing import Smoothing, estimate
from lmzoo.models.ngram.table import NGramTable
from lmzoo.protocol.model import State, WindowModel, sized_by_estimate


class BackoffModel(WindowModel):
    """A model that is an `NGramTable`: three buffers and no parameters; uniform until they are filled.

    `<eos>` is ``</s>`` where it is predicted and ``<s>`` where it is remembered. Memory never crosses
    it, whatever the corpus's context, as in KenLM's query.
    """

    keys: Tensor
    logprob: Tensor
    backoff: Tensor

    def __init__(self, types: int):
        super().__init__()
        self.register_buffer("keys", torch.empty(0, dtype=torch.int64))
        self.register_buffer("logprob", torch.zeros(types) - torch.tensor(types).log())
        self.register_buffer("backoff", torch.zeros(types))
        sized_by_estimate(self, "keys", "logprob", "backoff")

    @property
    def table(self) -> NGramTable:
        """The buffers as what they are."""
        return NGramTable(len(self.logprob) - len(self.keys), self.keys, self.logprob, self.backoff)

    @table.setter
    def table(self, table: NGramTable) -> None:
        device = self.device
        self.keys, self.logprob, self.backoff = (t.to(device) for t in (table.keys, table.logprob, table.backoff))

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        history = torch.cat([state[0], tokens], dim=1)  # (B, N - 1 + T)
        return self.table.score(history, self.order - 1), (history[:, tokens.shape[1] :],)

    def next_logprobs(self, context: Tensor) -> Tensor:
        return self.table.predict(context)[:, : self.vocabulary_size]


@models.register("ngram")
class NGram(BackoffModel):
    """n-gram model, by default interpolated modified Kneser-Ney as KenLM computes it.

    Chen & Goodman, *An empirical study of smoothing techniques for language modeling*, 1998;
    Heafield, Pouzyrevsky, Clark & Koehn, *Scalable modified Kneser-Ney language model estimation*,
    ACL 2013. The other smoothings are in `lmzoo.ngram_smoothing`.

    Args:
        order: N; a word is predicted from the N - 1 before it.
        smoothing: ``mle``, ``additive``, ``witten_bell``, ``absolute``, ``kneser_ney`` or ``modified_kneser_ney``.
        interpolated: whether seen words, too, take from the lower order; false backs off to it only
            for unseen ones.
        interpolate_unigrams: whether what is discounted from unigrams goes to all words alike, else to
            the unseen ones alone, as far as there are any (lmplz's ``--interpolate_unigrams``).
        unknown: whether one more type stands for all words outside the vocabulary and takes its share
            of the unigrams, as in lmplz; the probabilities of the V words then sum to less than one.
        pseudocount: δ that additive smoothing adds to each count.
        discount_fallback: use fixed discounts where the text is too small or too regular to give them.
        prune: for each order, up to which count n-grams are dropped, the last for all higher orders
            (lmplz's ``--prune``).
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        order: Size,
        smoothing: Smoothing,
        interpolated: bool,
        interpolate_unigrams: bool,
        unknown: bool,
        pseudocount: NonNegative,
        discount_fallback: bool,
        prune: list[Count],
    ):
        super().__init__(types=vocabulary_size + unknown)
        self.vocabulary_size = vocabulary_size
        self.types = vocabulary_size + unknown
        self.order = order
        if not 1 <= len(prune) <= order or prune[0] or prune != sorted(prune):
            raise UserError(
                f"model.prune={prune}: must be one count for each order up to {order}, not decreasing, the first 0"
            )
        self.options = {
            "smoothing": smoothing,
            "interpolated": interpolated,
            "interpolate_unigrams": interpolate_unigrams,
            "pseudocount": pseudocount,
            "discount_fallback": discount_fallback,
            "prune": prune,
        }

    def estimate(self, corpus: Corpus) -> None:
        self.table = estimate(corpus.train, vocabulary_size=self.types, order=self.order, **self.options)
