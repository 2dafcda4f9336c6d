"""An n-gram model read from an ARPA file."""

import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from lmzoo.core.errors import UserError, pluralize, printable
from lmzoo.core.options import Options, Source, configured
from lmzoo.corpus import Corpus, Vocabulary
from lmzoo.corpus.vocabulary import ADDED, EOS, EOS_ID, UNK
from lmzoo.models.ngram.arpa_file import read_arpa
from lmzoo.models.ngram.editing import renumbered
from lmzoo.models.ngram.ngram import BackoffModel
from lmzoo.models.ngram.table import NGramTable
from lmzoo.protocol.model import State, models

log = logging.getLogger(__name__)

SAMPLED = 50
"""How many of the commonest words, and of all contexts, are those after which probabilities are summed."""

SHOWN = 3
"""How many words a message names."""

NOT_ONE, NO_MODEL = 0.01, 1.1
"""From what difference a sum of probabilities is not 1 by rounding, and from what sum they are not those of a model."""


class ArpaOptions(Options):
    path: Source | None = None
    """the file, compressed or not. It is read when training starts. The run's checkpoint contains the model."""


@models.register("arpa")
class Arpa(BackoffModel):
    """The model of an ARPA file, from SRILM (Stolcke 2002), KenLM (Heafield et al. 2013) or any other toolkit.

    A word of the corpus that the file does not list scores as the file's `<unk>`, and is impossible if the file has no
    `<unk>`. A word of the file that the corpus does not have is unknown in every text; ``corpus.vocabulary=FILE`` takes
    the words of the file. Predictions need not sum to one if several words score as `<unk>`, or if the file lists words
    that the corpus does not have.
    """

    @configured(ArpaOptions)
    def __init__(self, vocabulary_size: int, options: ArpaOptions):
        super().__init__(types=vocabulary_size)
        self.vocabulary_size = vocabulary_size
        self.path = options.path
        self.entry = nn.Buffer(torch.arange(vocabulary_size))
        """(V,) the file's number of each word."""
        self.listed = nn.Buffer(torch.ones(vocabulary_size, dtype=torch.bool))
        """(V,) bool, whether the file has it."""

    @property
    def order(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """N, that of the file."""
        return self.table.order

    def estimate(self, corpus: Corpus) -> None:
        if self.path is None:
            raise UserError("model=arpa needs model.path=FILE, an ARPA file as SRILM, KenLM and lmzoo export write it")
        words, table = read_arpa(Path(self.path))
        check_sums(self.path, words, table)
        check_words(self.path, words, table, corpus.vocabulary)
        self._set_table(words, table, corpus.vocabulary)

    @staticmethod
    def of_file(path: Path) -> tuple["Arpa", Vocabulary]:
        """The model of a file, and the words of the file that a text can have; raises as `read_arpa` does."""
        words, table = read_arpa(path)
        check_sums(str(path), words, table)
        vocabulary = Vocabulary([EOS, *(word for word in words[1:] if word not in ADDED and word.split() == [word])])
        model: Arpa = models.build({"name": "arpa", "path": str(path)}, vocabulary_size=len(vocabulary))
        model._set_table(words, table, vocabulary)
        return model, vocabulary

    def _set_table(self, words: Sequence[str], table: NGramTable, vocabulary: Vocabulary) -> None:
        """Take the table of a file, whose unigrams are ``words``, for the words of a vocabulary."""
        number = {word: i for i, word in enumerate(words)} | {EOS: EOS_ID}
        entry = [number.get(word, number[UNK]) for word in vocabulary.words]
        self.entry = torch.tensor(entry, device=self.device)
        self.listed = torch.tensor([word in number for word in vocabulary.words], device=self.device)
        self.table = table

    def corpus_table(self, vocabulary: Vocabulary) -> NGramTable:
        types = self.table.vocabulary_size
        missing = int((~self.listed).sum())
        further = types - len(vocabulary) + missing - (UNK not in vocabulary.index)
        if missing or further:
            words = f"it lacks {pluralize(missing, 'word')} of the corpus, which lacks {further:,} of its words"
            advice = f"export the file itself, or train model=arpa with corpus.vocabulary={self.path}"
            raise UserError(f"{self.path}: {words}", advice)
        numbers = torch.full((types,), types - 1, device=self.device).index_copy_(
            0, self.entry, torch.arange(len(self.entry), device=self.device)
        )
        return renumbered(self.table, numbers, types)

    def unlisted(self) -> Tensor:
        return ~self.listed.cpu()

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        history = torch.cat([state[0], tokens], dim=1)  # (B, N - 1 + T)
        return self.table.score(self.entry[history], state[0].shape[1]), (history[:, tokens.shape[1] :],)

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

    def problem(place: int) -> str:
        after = " ".join("<s>" if word == EOS_ID else words[int(word)] for word in contexts[place].tolist())
        return f"{path}: the probabilities of all words after '{after}' sum to {float(sums[place]):.4g}"

    if not sums[highest] <= NO_MODEL:
        raise UserError(problem(highest), "those of a model sum to 1; make the file again")
    if abs(sums[farthest] - 1) > NOT_ONE:
        log.warning("%s, not to 1", problem(farthest))


def check_words(path: str, words: Sequence[str], table: NGramTable, vocabulary: Vocabulary) -> None:
    """Tell in the log which words of a file no text has, and which of the vocabulary's words the file does not have."""
    listed = {*words} if table.logprob[words.index(UNK)] > -torch.inf else {*words} - {UNK}
    if missing := [word for word in vocabulary.words[1:] if word not in listed]:
        if UNK in listed:
            log.info("%s: does not have %s, which it reads as %s", path, _word_list(missing, "the corpus"), UNK)
        else:
            log.warning("%s: has no %s, so it gives probability 0 to %s", path, UNK, _word_list(missing, "the corpus"))
    foreign = [word for word in words[1:] if word != UNK and word not in vocabulary.index]
    if never := [word for word in foreign if word in ADDED or not vocabulary.form.can_contain(word)]:
        why = ", ".join(vocabulary.form.changed_options()) or "white space parts words"
        log.warning("%s: no text can have %s: %s", path, _word_list(never, "the file"), why)
    if absent := sorted({*foreign} - {*never}):
        log.warning("%s: the corpus does not have %s, so they are unknown; corpus.vocabulary=%s includes them",
                    path, _word_list(absent, "the file"), path)  # fmt: skip


def _word_list(words: Sequence[str], where: str) -> str:
    """How many words there are, and some of them."""
    some = printable(", ".join(words[:SHOWN])) + (", …" if len(words) > SHOWN else "")
    return f"{pluralize(len(words), 'word')} of {where} ({some})"
