"""An n-gram model read from an ARPA file."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.core.options import Source
from lmzoo.core.registry import models
from lmzoo.corpus import Corpus
from lmzoo.corpus.vocabulary import EOS_ID, UNK
from lmzoo.models.ngram.arpa_file import read_arpa
from lmzoo.models.ngram.ngram import BackoffModel, saved_table
from lmzoo.models.ngram.table import NGramTable
from lmzoo.protocol.model import State, numbers_outside

log = logging.getLogger(__name__)

SAMPLED = 50
"""How many of the commonest words, and of all contexts, are those after which probabilities are summed."""

NOT_ONE, NO_MODEL = 0.01, 1.1
"""From what difference a sum of probabilities is not 1 by rounding, and from what sum they are not those of a model."""


@models.register("arpa")
class Arpa(BackoffModel):
    """The model of an ARPA file, from SRILM (Stolcke 2002), KenLM (Heafield et al. 2013) or any other toolkit.

    A word of the corpus that the file does not list scores as the file's `<unk>`, and is impossible if the file has no
    `<unk>`. Predictions need not sum to one if several words score as `<unk>`, or if the file lists words that the
    corpus does not have.

    Args:
        path: the file, gzipped or not. It is read when training starts. The run's checkpoint keeps the model.
    """

    entry: Tensor

    def __init__(self, *, vocabulary_size: int, path: Source | None):
        super().__init__(types=vocabulary_size)
        self.vocabulary_size = vocabulary_size
        self.path = path
        self.order = 1
        self.register_buffer("entry", torch.arange(vocabulary_size))
        self.register_load_state_dict_pre_hook(_check_entries)
        self.register_load_state_dict_post_hook(_measure)

    def estimate(self, corpus: Corpus) -> None:
        if self.path is None:
            raise UserError(
                "model=arpa needs model.path=FILE, an ARPA file as SRILM, KenLM and lmzoo.export_arpa write it"
            )
        words, table = read_arpa(Path(self.path))
        check_sums(self.path, words, table)
        number = {word: i for i, word in enumerate(words)}
        entry = [number.get(word, number[UNK]) for word in corpus.vocabulary.words]
        entry[EOS_ID] = EOS_ID
        self.entry = torch.tensor(entry, device=self.device)  # (V,) the file's number of each word
        self.table = table
        self.order = table.order

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        history = torch.cat([state[0], tokens], dim=1)  # (B, N - 1 + T)
        return self.table.score(self.entry[history], self.order - 1), (history[:, tokens.shape[1] :],)

    def next_logprobs(self, context: Tensor) -> Tensor:
        return self.table.predict(self.entry[context])[:, self.entry]


def check_sums(path: str, words: Sequence[str], table: NGramTable) -> None:
    """Test whether probabilities sum to 1 after a sample of contexts: none, ``<s>``, common words, any n-grams.

    What a file's own rounding and pruning do to a sum is far below `NOT_ONE`. The log warns of other sums.

    Raises: UserError for a sum above `NO_MODEL`, since a perplexity would say nothing.
    """
    V, unknown = len(words), words.index(UNK)
    random = torch.Generator().manual_seed(0)
    rows = torch.randint(max(1, len(table.backoff)), (SAMPLED,), generator=random)
    common = table.logprob[:V].topk(min(V, SAMPLED)).indices
    rows = torch.cat([torch.tensor([unknown, EOS_ID]), common, rows])
    contexts = table.contexts(rows, unknown)
    at_once = max(1, (1 << 24) // V)
    sums = torch.cat([table.predict(part).double().logsumexp(1).exp() for part in contexts.split(at_once)])
    highest, farthest = int(sums.argmax()), int((sums - 1).abs().argmax())

    def told(place: int) -> str:
        after = " ".join("<s>" if word == EOS_ID else words[int(word)] for word in contexts[place].tolist())
        return f"{path}: the probabilities of all words after '{after}' sum to {float(sums[place]):.4g}"

    if not sums[highest] <= NO_MODEL:
        raise UserError(told(highest), "those of a model sum to 1; make the file again")
    if abs(sums[farthest] - 1) > NOT_ONE:
        log.warning("%s, not to 1", told(farthest))


def _check_entries(model: Arpa, saved: Mapping[str, Any], prefix: str, *others: Any) -> None:
    """Refuse a checkpoint with words that its table does not have."""
    table = saved_table(saved, prefix)
    if table is not None and (problem := numbers_outside(saved.get(prefix + "entry"), table.vocabulary_size)):
        others[-1].append(f"entry {problem}")  # to the errors of load_state_dict


def _measure(model: Arpa, *_: Any) -> None:
    """Take N from the n-grams of a checkpoint."""
    if model.table.problem() is None:  # else PyTorch tells what `BackoffModel` has found
        model.order = model.table.order
