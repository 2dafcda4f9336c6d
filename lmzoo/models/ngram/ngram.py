"""n-gram models: counts, smoothing, backing off."""

import logging
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.memory import large_tensors_given_back
from lmzoo.core.options import Count, Depth, NonNegative
from lmzoo.corpus import Corpus
from lmzoo.models.ngram.drawing import Drawing
from lmzoo.models.ngram.smoothing import Smoothing, estimate
from lmzoo.models.ngram.table import NGramTable
from lmzoo.protocol.model import State, WindowModel, models, number_kind, sized_by_estimate

log = logging.getLogger(__name__)


class BackoffModel(WindowModel):
    """A model that is an `NGramTable`: three buffers and no parameters. It is uniform until the buffers are filled.

    `<eos>` is ``</s>`` where it is predicted and ``<s>`` where it is remembered. Memory never crosses `<eos>`, in
    either context of the corpus, as in KenLM's query.

    Args:
        types: the number of unigrams in the table.
    """

    forgets_at_eos = True
    learnt = ("logprob", "backoff")
    keys: Tensor
    logprob: Tensor
    backoff: Tensor

    def __init__(self, types: int):
        super().__init__()
        self.register_buffer("keys", torch.empty(0, dtype=torch.int64))
        self.register_buffer("logprob", torch.full((types,), -math.log(types)))
        self.register_buffer("backoff", torch.zeros(types))
        sized_by_estimate(self, "keys", "logprob", "backoff", constant=True)
        self.register_load_state_dict_pre_hook(_check_table)
        self._frozen: NGramTable | None = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        before, self._frozen = self._frozen, self.table
        try:
            yield
        finally:
            self._frozen = before

    @property
    def window_tokens(self) -> int:
        """A million: calls cost little then, and memory stays below that of a large table."""
        return 2**20

    @property
    def table(self) -> NGramTable:
        """The buffers as a table; while they are frozen, the same one."""
        if self._frozen is not None:
            return self._frozen
        return NGramTable(len(self.logprob) - len(self.keys), self.keys, self.logprob, self.backoff)

    @table.setter
    def table(self, table: NGramTable) -> None:
        device = self.device
        self.keys, self.logprob, self.backoff = (t.to(device) for t in (table.keys, table.logprob, table.backoff))

    def mismatch(self, table: NGramTable) -> str | None:
        """What shows that a table is none of this model; None if nothing does."""
        return table.problem()

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
    ACL 2013. The other smoothings are in `lmzoo.models.ngram.smoothing`.

    Args:
        order: N; a word is predicted from the N - 1 before it.
        smoothing: how counts become probabilities; mle does not smooth.
        interpolated: whether a seen word, too, gets a share of the lower order. Else only words unseen after the
            context back off.
        interpolate_unigrams: whether the probability that is discounted from the unigrams goes to all types alike. Else
            it goes to the unseen types alone, if there are any (lmplz's ``--interpolate_unigrams``).
        unknown: whether one more type stands for all words outside the vocabulary and takes its share of the unigrams,
            as in lmplz. The probabilities of the V words then sum to less than one.
        pseudocount: δ that additive smoothing adds to each count.
        discount_fallback: whether an order takes the discounts 0.5, 1 and 1.5 if the text is too small or too regular
            to give any. Else that is an error, as in lmplz.
        prune: a threshold for each order, not decreasing, 0 for unigrams; the last one is also that of all higher
            orders. An n-gram with this count or a lower one is left out (lmplz's ``--prune``).
        memory: GiB that counting may take beside the finished table; the n-grams are sorted in parts in temporary files
            (TMPDIR) then, and merged, to the same bits (lmplz's ``-S``). None: they are counted in memory.
    """

    def __init__(
        self,
        *,
        vocabulary_size: int,
        order: Depth,
        smoothing: Smoothing,
        interpolated: bool,
        interpolate_unigrams: bool,
        unknown: bool,
        pseudocount: NonNegative,
        discount_fallback: bool,
        prune: list[Count],
        memory: NonNegative | None,
    ):
        super().__init__(types=vocabulary_size + unknown)
        self.vocabulary_size = vocabulary_size
        self.types = vocabulary_size + unknown
        self.order = order
        self._drawing: Drawing | None = None
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
            "memory": memory,
        }

    def mismatch(self, table: NGramTable) -> str | None:
        if table.vocabulary_size != self.types:
            return f"there are {table.vocabulary_size} unigrams, and this model has {self.types}"
        return table.problem(self.order)

    def estimate(self, corpus: Corpus) -> None:
        with large_tensors_given_back():
            self.table = estimate(corpus.splits["train"], vocabulary_size=self.types, order=self.order, **self.options)
        log.info("%s n-grams of 1 to %d words", f"{len(self.logprob):,}", self.order)

    def draw(self, state: State, random: torch.Generator) -> tuple[Tensor, State]:
        """See `lmzoo.protocol.sampling.Draws`."""
        if self._drawing is None or self._drawing.table is not self.table:
            self._drawing = Drawing(self.table, self.vocabulary_size)
        word = self._drawing(state[0], random)[:, None]
        return word, (torch.cat([state[0], word], 1)[:, 1:],)


def saved_table(saved: Mapping[str, Any], prefix: str) -> NGramTable | None:
    """The table of a checkpoint; None where PyTorch itself finds that there is none."""
    keys, logprob, backoff = (saved.get(prefix + name) for name in ("keys", "logprob", "backoff"))
    vectors = [part for part in (keys, logprob, backoff) if isinstance(part, Tensor) and part.ndim == 1]
    if len(vectors) < 3 or number_kind(vectors[0]) != "whole":
        return None
    return NGramTable(len(vectors[1]) - len(vectors[0]), *vectors)


def _check_table(model: BackoffModel, saved: Mapping[str, Any], prefix: str, *others: Any) -> None:
    """Refuse a checkpoint with no table, or with one of other words, whose sizes `sized_by_estimate` lets in."""
    table = None if model.logprob.is_meta else saved_table(saved, prefix)  # once, as it takes long
    if table is not None and (problem := model.mismatch(table)):
        others[-1].append(f"the checkpoint's n-grams are none of this model: {problem}")
