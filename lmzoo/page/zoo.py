"""Runs of one vocabulary, opened."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from lmzoo.api import Loaded, load
from lmzoo.core.errors import UserError
from lmzoo.core.plugins import load_plugins, split_names
from lmzoo.corpus import Vocabulary
from lmzoo.huggingface.causal import RawText
from lmzoo.models.hmm.hidden_markov import HiddenMarkovModel
from lmzoo.protocol.model import evaluating
from lmzoo.runs.directory import Run
from lmzoo.runs.external import run_at
from lmzoo.runs.kinds import LABELS, WORD_VECTORS
from lmzoo.runs.listing import names
from lmzoo.words.vectors.formats import read_vectors
from lmzoo.words.vectors.word_vectors import WordVectors


class Vectors(NamedTuple):
    """A run of word vectors."""

    run: Run
    words: WordVectors


class Zoo:
    """Runs of one vocabulary, and transformers with raw text, opened; the tables of models are computed once.

    Each is known by the last parts of its path, as many as tell it from the others.

    Attributes:
        vocabulary: that of the runs.
        models: the language models, in the order given.
        predicting: those that predict every next word.
        hmms: those that are hidden Markov models.
        vectors: the runs of word vectors.
        notes: of runs whose training is not finished, and of models without probabilities of words, which are left out.

    Raises: UserError where there is no run, a folder is none or of another kind, or has other words than the first.
    """

    def __init__(self, folders: Sequence[str | os.PathLike[str]], device: str = "cpu", plugins: Sequence[str] = ()):
        load_plugins(split_names(plugins) if isinstance(plugins, str) else plugins)
        named = names([Path(folder) for folder in folders])
        if not named:
            raise UserError("no run is named", "name folders of runs, such as outputs/pydoc/lstm")
        self.models: dict[str, Loaded] = {}
        self.vectors: dict[str, Vectors] = {}
        opened: list[tuple[Run, Vocabulary]] = []
        for name, folder in named.items():
            run = run_at(folder)
            if (kind := run.config().kind) is LABELS:
                raise UserError(f"{folder}: is a run of {kind.noun}", "name runs of lmzoo train and lmzoo vectors")
            if kind is WORD_VECTORS:
                self.vectors[name] = Vectors(run, read_vectors(run.path))
                opened.append((run, run.vocabulary()))
            else:
                self.models[name] = load(folder, device)
                opened.append((run, self.models[name].vocabulary))
        of_words = [(run, vocabulary) for run, vocabulary in opened if not isinstance(vocabulary.form, RawText)]
        if not of_words:
            raise UserError(f"{opened[0][0].path}: has no word vocabulary", "name a run of lmzoo train beside it")
        (first, self.vocabulary), *others = of_words
        for run, vocabulary in others:
            own = self.vocabulary
            if (vocabulary.words, vocabulary.form, vocabulary.conditions) != (own.words, own.form, own.conditions):
                raise UserError(f"{run.path}: has other words than {first.path}", "name runs with the same vocabulary")
        if self.vocabulary.form.reverse:
            raise UserError(f"{first.path}: reads backwards (corpus.reverse=true)", "give a run that reads forwards")
        self.notes = [warning for run, _ in opened if (warning := run.unfinished())]
        for name in [name for name, lm in self.models.items() if lm.model.whole_sentences]:
            del self.models[name]
            self.notes.append(
                f"{name}: assigns probabilities only to whole sentences, not to words, so it is not shown"
            )
        self.predicting = {n: lm for n, lm in self.models.items() if not lm.model.open_vocabulary}
        self.hmms = {name: lm for name, lm in self.models.items() if isinstance(lm.model, HiddenMarkovModel)}
        self._frozen = ExitStack()
        for lm in self.models.values():
            self._frozen.enter_context(evaluating(lm.model))
