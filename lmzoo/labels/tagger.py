"""Trained labellers in Python: ``tagger = lmzoo.load("outputs/upos/crf")``, ``tagger("They walk .")``."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lmzoo.core.errors import UserError
from lmzoo.corpus.tokenizer import TOKENIZERS
from lmzoo.labels.chain import Scores, chain
from lmzoo.labels.formats import Sentence
from lmzoo.labels.linear_chain import ChainLabeller
from lmzoo.labels.model import TrainedLabeller
from lmzoo.labels.tasks import LabelledWords, tasks
from lmzoo.models.hmm.inference.paths import posterior


class Labelled(NamedTuple):
    """A word, or a whole text, with its label.

    Attributes:
        probability: the marginal p(label | sentence) of a word; with task.scheme, that of the converted label of the
            model, such as S-PER for B-PER. None if the model has none.
    """

    text: str
    label: str
    probability: float | None


@dataclass(frozen=True, repr=False)
class Tagger:
    """A trained labeller of words or of texts."""

    trained: TrainedLabeller

    def __repr__(self) -> str:
        return f"<{self.trained.options['name']} of {self.trained.task['name']} in {self.trained.folder}>"

    def __call__(
        self, text: str, *, features: Sequence[Sequence[str]] | None = None, tokenize: str | None = None
    ) -> list[Labelled]:
        """Label the words of a sentence; with a run that labels texts, the text.

            >>> tagger = lmzoo.load("outputs/tags/hmm_tagger")
            >>> [(word, label) for word, label, p in tagger("they walk .")]
            [('they', 'PRON'), ('walk', 'VERB'), ('.', 'PUNCT')]

        Args:
            text: words separated by white space, or plain text with ``tokenize``.
            features: the further columns of each word, for runs that use them, such as the tag for chunk.
            tokenize: ``treebank`` or ``words``, the tokenizer of plain text.

        Raises: UserError if the text has no words or several lines, the run labels trees, or features are not those of
            the run.
        """
        labeller, task = self.trained.labeller, tasks.build(self.trained.task)
        task.layout = self.trained.layout
        if tokenize is not None and tokenize not in TOKENIZERS:
            raise UserError(f"tokenize={tokenize}: no such tokenizer", f"choose {' or '.join(TOKENIZERS)}")
        if not isinstance(text, str) or "\n" in text:
            raise UserError("the text is not one line", "give a sentence, as 'They walk .'")
        words = (text if tokenize is None else TOKENIZERS[tokenize](text)).split()
        if labeller.kind == "tree":
            raise UserError(f"{self.trained.folder}: labels trees", "lmzoo tag reads them from a file")
        if not words:
            raise UserError("the text has no words", "give a sentence")
        wanted = len(task.columns.features) if isinstance(task, LabelledWords) else 0
        given = [[] for _ in words] if features is None else [list(each) for each in features]
        cells = [cell for each in given for cell in each]
        if [len(each) for each in given] != [wanted] * len(words) or not all(isinstance(cell, str) for cell in cells):
            raise UserError(f"{self.trained.folder}: reads {wanted} further columns of each of the {len(words)} words",
                            "give them as features=[[…], …]")  # fmt: skip
        whole = labeller.kind == "text"
        sentence = Sentence(words, [""] * (1 if whole else len(words)), given)
        (coded,) = labeller.label([sentence])
        if whole:
            return [Labelled(text, coded[0], None)]
        return list(map(Labelled, words, task.to_text_scheme(coded), self._probabilities(sentence, coded)))

    def _probabilities(self, sentence: Sentence, labels: Sequence[str]) -> list[float] | list[None]:
        """p(y_t | x) of each word's label."""
        labeller = self.trained.labeller
        if not (isinstance(labeller, ChainLabeller) and labeller.probabilistic):
            return [None] * len(labels)
        scores = labeller.scores([sentence])
        double = Scores(scores.emission.double(), scores.moves.double(), scores.start.double(), scores.lengths)
        p = posterior(chain(double), scores.lengths)
        return [float(p[0, place, labeller.labels.index(label)]) for place, label in enumerate(labels)]
