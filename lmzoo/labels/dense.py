"""Dense features of words: word vectors, and contextual vectors of language models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor
from torch.nn import functional as F

import lmzoo.models  # noqa: F401 - its import registers them
from lmzoo.core.errors import UserError, error_prefix
from lmzoo.core.options import Bounds, Idle, NonNegative, Options, Source
from lmzoo.corpus.vocabulary import EOS_ID, UNK, reversed_order
from lmzoo.labels.formats import Sentence
from lmzoo.labels.lexical import entry, log_coverage
from lmzoo.labels.model import OpenModel, Saved, StateDict, decode, encode
from lmzoo.protocol.abilities import Encoder
from lmzoo.protocol.encoder import embed_lines
from lmzoo.protocol.model import LanguageModel, evaluating, models
from lmzoo.words.vectors.formats import read_vectors

NONE = Idle(("labeller.vectors", None), ("labeller.encoder", None, []))


def windows(rows: Tensor, lengths: Sequence[int], window: int) -> Tensor:
    """(N, d) rows of words -> (N, (2·window + 1) d) rows of windows; zeros beyond the ends of a sentence."""
    padded = (F.pad(part, (0, 0, window, window)) for part in rows.split([*lengths]) if len(part))
    return torch.cat([part.unfold(0, 2 * window + 1, 1).mT.flatten(1) for part in padded])


@dataclass(frozen=True)
class WordEncoder:
    """A trained language model that computes vectors of the words of a sentence.

    Attributes:
        name: the name of its run.
        options: the options of the model.
        words: the V words of its vocabulary.
        reverse: whether it reads sentences backwards.
    """

    name: str
    model: LanguageModel
    options: Mapping[str, Any]
    words: Sequence[str]
    reverse: bool

    def vectors(self, sentences: Sequence[Sentence]) -> Tensor:
        """(N, h) vectors of the words of sentences; raise a UserError for an unknown word without `<unk>`."""
        index = {word: number for number, word in enumerate(self.words)}
        numbers = {word: entry(word, index) for word in {word for sentence in sentences for word in sentence.words}}
        if unknown := [word for word, number in numbers.items() if number is None]:
            raise UserError(f"labeller.encoder={self.name}: '{min(unknown)}' is not among its words, nor is {UNK}",
                            "choose a run of a text with rare words, or with corpus.unknown=true")  # fmt: skip
        lines = ([*(numbers[word] or 0 for word in sentence.words), EOS_ID] for sentence in sentences)
        tokens = torch.tensor([*chain.from_iterable(lines)], dtype=torch.int64)
        order = reversed_order(tokens) if self.reverse else torch.arange(len(tokens))
        assert isinstance(self.model, Encoder)
        with evaluating(self.model):
            return embed_lines(self.model, tokens[order])[order][tokens != EOS_ID]

    def state_dict(self) -> StateDict:
        """The state that `vectors` depends on."""
        form = {"options": dict(self.options), "words": self.words, "reverse": self.reverse}
        return {"weights": dict(self.model.state_dict()), "form": encode(form)}


class DenseOptions(Options):
    vectors: Source | None = None
    """a run of ``lmzoo vectors``, or a file of word vectors, whose components are features; None: none."""
    encoder: Source | Sequence[Source] | None = None
    """a run of model=lds, of a hidden Markov model or of a recurrent network, or [several], whose contextual embeddings
    of the words are features; recurrent networks read the sentence only up to the word, or with corpus.reverse=true
    from it on (Akbik, Blythe & Vollgraf 2018). None: none."""
    window: Annotated[int, Bounds(low=0, high=10), NONE] = 0
    """number of words on each side whose vectors are features, too."""
    scale: Annotated[NonNegative, NONE] = 1.0
    """root mean square of the components of vectors over train."""


class Dense(Saved):
    """The concatenated vectors of a word and its neighbours in the sentence.

    A word without a vector has zeros. All vectors of a source are scaled by one factor, such that the root mean square
    of their components over train is ``scale`` (Turian, Ratinov & Bengio 2010, §7).

    Args:
        vectors, encoder, window, scale: see `DenseOptions`.
    """

    saved = ("table", "matrix", "scales")

    def __init__(self, vectors: str | None, encoder: str | Sequence[str] | None, window: int, scale: float):
        self.vectors, self.window, self.scale = vectors, window, scale
        self.names: Sequence[str] = [encoder] if isinstance(encoder, str) else encoder or []
        """The runs of the encoders."""
        self.encoders: list[WordEncoder] = []
        self.table: dict[str, int] = {}
        self.matrix = torch.zeros(0, 0)
        self.scales = torch.ones(0)

    def start(self, sentences: Sequence[Sentence], open_model: OpenModel) -> Tensor:
        """Load vectors and encoders, and compute the scales. Returns: `rows` of the sentences."""
        if self.vectors is not None:
            with error_prefix("labeller.vectors"):
                read = read_vectors(Path(self.vectors))
            self.table, self.matrix = read.lower | read.index, read.matrix
            log_coverage(self.vectors, self.table, sentences)
        self.encoders = []
        for name in self.names:
            run, vocabulary = open_model("labeller.encoder", name)
            if not isinstance(run.model, Encoder):
                problem = f"model={run.options['name']} makes no vectors of the words of a line"
                advice = "choose a run of model=lds, of a hidden Markov model or of a recurrent network"
                raise UserError(f"labeller.encoder={name}: {problem}", advice)
            log_coverage(name, vocabulary.words, sentences)
            encoder = WordEncoder(name, run.model, run.options, vocabulary.words, vocabulary.form.reverse)
            self.encoders.append(encoder)
        parts = self._parts(sentences)
        squares = [float(part.double().square().mean()) for part in parts]
        if self.vectors is not None and squares[0] == 0:
            raise UserError(f"labeller.vectors={self.vectors}: has none of the words of train")
        self.scales = torch.tensor([self.scale / square**0.5 for square in squares])
        return self._joined(parts, sentences)

    def rows(self, sentences: Sequence[Sentence]) -> Tensor:
        """(N, D) features of words; raise a UserError for a word unknown to the language model without `<unk>`."""
        return self._joined(self._parts(sentences), sentences)

    def _joined(self, parts: Sequence[Tensor], sentences: Sequence[Sentence]) -> Tensor:
        lengths = [len(sentence.words) for sentence in sentences]
        scaled = [part * scale for part, scale in zip(parts, self.scales, strict=True)]
        return windows(torch.cat([torch.zeros(sum(lengths), 0), *scaled], 1), lengths, self.window)

    def _parts(self, sentences: Sequence[Sentence]) -> list[Tensor]:
        parts = []
        if self.vectors is not None:
            zeros = self.matrix.new_zeros(1, self.matrix.shape[1])
            rows = [entry(word, self.table) for sentence in sentences for word in sentence.words]
            places = torch.tensor([len(self.matrix) if row is None else row for row in rows])
            parts.append(torch.cat([self.matrix, zeros])[places])
        return parts + [encoder.vectors(sentences) for encoder in self.encoders]

    def state_dict(self) -> StateDict:
        return super().state_dict() | {"encoders": [encoder.state_dict() for encoder in self.encoders]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.encoders = []
        for name, saved in zip(self.names, state["encoders"], strict=True):
            form = decode(saved["form"])
            model: LanguageModel = models.build(form["options"], vocabulary_size=len(form["words"]))
            model.load_state_dict(saved["weights"])
            self.encoders.append(WordEncoder(name, model.eval(), **form))
