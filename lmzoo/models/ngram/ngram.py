"""n-gram models: counts, smoothing, backing off."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError
from lmzoo.core.memory import release_large_tensors
from lmzoo.core.options import Depth, configured
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.models.ngram.drawing import Drawing
from lmzoo.models.ngram.smoothing import SmoothingOptions, estimate
from lmzoo.models.ngram.table import NGramTable
from lmzoo.protocol.model import State, models
from lmzoo.protocol.state_dict import sized_by_estimate
from lmzoo.protocol.window_model import WindowModel


class BackoffModel(WindowModel):
    """A model that is an `NGramTable`: three buffers and no parameters. It is uniform until the buffers are filled.

    `<eos>` is ``</s>`` where it is predicted and ``<s>`` where it is remembered. Memory never crosses `<eos>`, in
    either context of the corpus, as in KenLM's query.

    Args:
        types: the number of unigrams in the table.
    """

    takes_steps = False
    forgets_at_eos = True
    estimated_tensors = ("logprob", "backoff")

    def __init__(self, types: int):
        super().__init__()
        self.keys = nn.Buffer(torch.empty(0, dtype=torch.int64))
        self.logprob = nn.Buffer(torch.full((types,), -math.log(types)))
        self.backoff = nn.Buffer(torch.zeros(types))
        sized_by_estimate(self, "keys", "logprob", "backoff", constant=True)

    def tables(self) -> NGramTable:
        keys, logprob = self.keys, self.logprob
        return NGramTable(logprob.numel() - keys.numel(), keys, logprob, self.backoff)

    @property
    def window_tokens(self) -> int:
        """A million: calls cost little then, and memory stays below that of a large table."""
        return 2**20

    @property
    def table(self) -> NGramTable:
        """The buffers as a table; while they are frozen, the same one."""
        return self.current_tables()

    @table.setter
    def table(self, table: NGramTable) -> None:
        device = self.device
        self.keys, self.logprob, self.backoff = (t.to(device) for t in (table.keys, table.logprob, table.backoff))

    def corpus_table(self, vocabulary: Vocabulary) -> NGramTable:
        """The table by the numbers of a corpus's words, and perhaps `<unk>` as one more type.

        Raises: UserError where the model has other words.
        """
        return self.table

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        history = torch.cat([state[0], tokens], dim=1)  # (B, N - 1 + T)
        return self.table.score(history, self.order - 1), (history.narrow(1, tokens.shape[1], self.order - 1),)

    def next_logprobs(self, context: Tensor) -> Tensor:
        return self.table.predict(context)[:, : self.vocabulary_size]


class NGramOptions(SmoothingOptions):
    order: Depth = 5
    """N; a word is predicted from the N - 1 before it."""
    unknown: bool = False
    """whether there is a type for out-of-vocabulary words, with its share of the unigrams, as in lmplz. The
    probabilities of the V words then sum to less than one."""


@models.register("ngram")
class NGram(BackoffModel):
    """n-gram model, by default interpolated modified Kneser-Ney as KenLM computes it.

    Chen & Goodman, *An empirical study of smoothing techniques for language modeling*, 1998;
    Heafield, Pouzyrevsky, Clark & Koehn, *Scalable modified Kneser-Ney language model estimation*,
    ACL 2013. The other smoothings are in `lmzoo.models.ngram.smoothing`.
    """

    @configured(NGramOptions)
    def __init__(self, vocabulary_size: int, options: NGramOptions):
        super().__init__(types=vocabulary_size + options.unknown)
        self.vocabulary_size = vocabulary_size
        self.types = vocabulary_size + options.unknown
        self.order = order = options.order
        self.options = options
        self._drawing: Drawing | None = None
        self.register_load_state_dict_post_hook(_check_loaded)
        prune = [*options.prune]
        if not 1 <= len(prune) <= order or prune[0] or prune != sorted(prune):
            raise UserError(
                f"model.prune={prune}: must be one count for each order up to {order}, not decreasing, the first 0"
            )

    def estimate(self, corpus: Corpus) -> None:
        with release_large_tensors():
            smoothing = self.options.inherited(SmoothingOptions)
            self.table = estimate(corpus.splits["train"], self.types, self.order, **smoothing)

    def draw(self, state: State, random: torch.Generator) -> tuple[Tensor, State]:
        """See `lmzoo.protocol.abilities.Draws`."""
        if self._drawing is None or self._drawing.table is not self.table:
            self._drawing = Drawing(self.table, self.vocabulary_size)
        word = self._drawing(state[0], random)[:, None]
        return word, (torch.cat([state[0], word], 1)[:, 1:],)


def _check_loaded(model: NGram, incompatible: Any) -> None:
    """Raise a RuntimeError, as PyTorch does for sizes, for the weights of other words or of another order."""
    table, order = model.table, model.order
    of_order = table.order == order or (table.order < order and len(table.backoff) == len(table.logprob))
    if not incompatible.missing_keys and (table.vocabulary_size != model.types or not of_order):
        raise RuntimeError(
            f"size mismatch for NGram: the weights are of {table.vocabulary_size:,} words and order {table.order}, "
            f"the model is of {model.types:,} and order {order}"
        )
