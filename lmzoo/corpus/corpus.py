"""Text as numbers: a corpus is three token streams over one vocabulary."""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from lmzoo.corpus.vocabulary import Vocabulary

SPLITS = ("train", "valid", "test")

Context = Literal["stream", "sentence"]
"""Whether a model's memory crosses `<eos>` (``stream``) or each line stands alone (``sentence``)."""


@dataclass(frozen=True)
class Corpus:
    """Three splits of one text.

    Attributes:
        splits: ``train``, ``valid`` and ``test``, each (N,) int64, every line closed by `<eos>` (word 0);
            N counts every word and one `<eos>` per line.
        context: see `Context`; every reported figure records it.
        sha256: of each split's text, so that a result says what it was measured on.
        true_perplexity: of valid and test, where the source of the text is known.
        notes: what else provenance should record, such as the version a text came from.
    """

    name: str
    context: Context
    vocabulary: Vocabulary
    splits: dict[str, Tensor]
    sha256: dict[str, str]
    true_perplexity: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def train(self) -> Tensor:
        """(N,) int64 training tokens."""
        return self.splits["train"]
