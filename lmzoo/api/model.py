"""A trained language model, and what one asks of it."""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from lmzoo.api.frames import data_frame, word_columns
from lmzoo.api.predictor import Predictor, warn
from lmzoo.api.states import States, states
from lmzoo.api.texts import Texts, tokenized
from lmzoo.core.errors import UserError, error_prefix, shortened
from lmzoo.core.options import unfit
from lmzoo.corpus import EOS_ID, Context
from lmzoo.corpus.conditions import label_number
from lmzoo.corpus.corpus import SPLITS
from lmzoo.corpus.lines import log2_shares
from lmzoo.protocol.lines import (
    Line,
    Lines,
    mark_unknown,
    scored_parts,
    scored_texts,
    stream_warning,
    unknown_warning,
)
from lmzoo.protocol.perplexity import Score, validated
from lmzoo.runs.external import require_words
from lmzoo.runs.lineage import training_text_warning
from lmzoo.runs.results import perplexities

log = logging.getLogger(__name__)


BITS = 1 / math.log(2)
"""In a nat."""


@dataclass(frozen=True, repr=False)
class Loaded(Predictor):
    """A trained model, its vocabulary, and what one asks of them.

    Words that the model does not know are read as `<unk>`. What gives words says which: ``xylophone→<unk>``. Of other
    texts the log has a warning.

    Texts are in their own order also where a run reads lines backwards (corpus.reverse=true) and has each word given
    those behind it; the beginning of a sentence that is asked for is its end then.

    It has all that a `Predictor` has, too.

        >>> lm = lmzoo.load("outputs/pydoc/ngram")
        >>> lm.run.path, lm.context, "value" in lm.vocabulary.index
        (PosixPath('outputs/pydoc/ngram'), 'stream', True)
        >>> model, vocabulary = lm
    """

    @property
    def results(self) -> dict[str, Any] | None:
        """The contents of ``results.json``; None before training is finished."""
        return self.run.results()

    def __iter__(self) -> Iterator[Any]:
        yield from (self.model, self.vocabulary)

    def __repr__(self) -> str:
        results = self.results
        figures = "" if results is None else "".join(
            f", {split} perplexity {value:.2f}" for split, value in perplexities(results).items()
        )  # fmt: skip
        name = self.run.config()["model"]["name"]
        backwards = ", which reads backwards" * self.vocabulary.form.reverse
        size = "" if self.model.open_vocabulary else f"of {len(self.vocabulary):,} words "
        return f"<{name} {size}in {self.run.path}{backwards}{figures}>"

    @overload
    def score(self, text: str, condition: str | None = None) -> float: ...

    @overload
    def score(self, text: list[str], condition: str | None = None) -> list[float]: ...

    def score(self, text: str | list[str], condition: str | None = None) -> float | list[float]:
        """The log-probability, in nats, of a sentence and its `<eos>`; for a list of sentences, a list.

            >>> lm.score("the value"), lm.score(["the value", "value the"])
            (-..., [-..., -...])

        Args:
            condition: its label, where the run's lines have labels; without it p(x) = Σ_c p(c) p(x | c). So it is in
                `surprisal` and `next_words`, too.
        """
        lines = self._lines(_listed(text), condition)
        warn(unknown_warning(sum(line.unknown for line in lines), sum(len(line.words) for line in lines), "text"))
        logprobs = [line.logprob for line in lines]
        return logprobs[0] if isinstance(text, str) else logprobs

    def surprisal(
        self,
        text: str | Sequence[str],
        *,
        context: str | Sequence[str] | None = None,
        tokenize: str | None = None,
        condition: str | None = None,
    ) -> list[Any]:
        """-log2 p of each word of a line and of its `<eos>`; of several lines, which are scored together, a list each.

        A word that the model does not know is given with what is read in its place, as in ``xylophone→<unk>``; its
        surprisal is that of `<unk>`.

            >>> lm.surprisal("the value")
            [('the', ...), ('value', ...), ('<eos>', ...)]
            >>> lm.surprisal(["the value", "a zebra"])[1]
            [('a', ...), ('zebra→<unk>', ...), ('<eos>', ...)]
            >>> lm.surprisal("value", context="the") == lm.surprisal("the value")[1:]
            True

        Args:
            context: the text before each line, or a list with that of each. The line goes on where it ends: the words
                have their surprisal in ``context + " " + text``, with `<eos>` for each line feed. So end it with a
                line feed where the line is a sentence of its own. A model that reads each sentence by itself, as
                n-grams and runs of corpus.context=sentence do, is affected by what follows the last line feed alone.
            tokenize: ``words``, ``treebank`` or ``ptb``, the tokenizer of text whose words spaces do not separate.
            condition: as in `score`.

        Raises: UserError for a text that is not one line, a word that a vocabulary without `<unk>` does not have, and a
            model with probabilities of whole sentences only.
        """
        require_words(self.run, self.model, self.vocabulary)
        texts, found = _listed(text), list[list[tuple[str, float]]]()

        def add(words: list[str], bits: list[float], known: list[bool]) -> None:
            found.append([*zip(words if all(known) else mark_unknown(words, known), bits, strict=True)])

        if context is None and (len(texts) != 1 or self.vocabulary.conditions):
            for group in self._groups(tokenized(self, texts, tokenize), condition):
                known, begin = group.known.tolist(), 0
                surprisals = [0.0 - p * BITS for p in group.logprobs.tolist()]
                for words in group.words:
                    end = begin + len(words)
                    add(words, surprisals[begin:end], known[begin:end])
                    begin = end
        else:
            label_number(condition, self.vocabulary)  # an error for one that is not there
            read = Texts.read(self, texts, context, tokenize)
            known_of_all = self._known
            for words, tokens, logprobs in zip(read.words(), read.ordered(read.tokens), read.logprobs(), strict=True):
                bits = [0.0 - p * BITS for p in logprobs.tolist()]
                add(words, bits, known_of_all[tokens].tolist())
        return found[0] if isinstance(text, str) else found

    def frame(
        self, texts: str | Sequence[str], *, context: str | Sequence[str] | None = None, tokenize: str | None = None
    ) -> Any:
        """Tabulate the words of lines: a data frame of pandas.

        A row is a word or the `<eos>` of a line, with the figures of ``lmzoo score --table``: ``text`` is the index
        of the line in ``texts``, from 0; ``position`` in the line, from 1; ``word``; ``known``, whether the model knows
        it; ``surprisal``, and ``entropy`` of the next word in its place, in bits; ``rank``, 1 for the likeliest word;
        ``log_frequency``, log2 of its share of the training text, (c + 1) / (N + V); ``surprisal_1`` and
        ``surprisal_2``, of the word before and of the one before that in the line. ``start`` and ``end`` are its
        place in the line as it was given, so that ``frame[frame.start.between(4, 9)].surprisal.sum()`` is that of a
        region. Missing values, such as the entropy of a transformer, which has no word vocabulary, are NaN.

            >>> lm.frame(["The value", "A list"], tokenize="ptb")[["text", "position", "word", "start", "end"]]
               text  position   word  start  end
            0     0         1    the      0    3
            1     0         2  value      4    9
            2     0         3  <eos>      9    9
            3     1         1      a      0    1
            4     1         2   list      2    6
            5     1         3  <eos>      6    6

        Args:
            context, tokenize: as in `surprisal`.

        Raises: UserError as `surprisal` does, for a run whose lines have labels, and if pandas is not installed.
        """
        lines = _listed(texts)
        require_words(self.run, self.model, self.vocabulary, labels=False)
        read = Texts.read(self, lines, context, tokenize)
        return data_frame(word_columns(read, lines, tokenize, self._log_shares))

    def states(self, text: str, *, tokenize: str | None = None) -> States:
        """Infer the hidden states of a line under a hidden Markov model or a linear dynamical system.

            >>> found = hmm.states("the value")
            >>> found.path
            [...]
            >>> found.smoothed.shape
            torch.Size([3, 4])

        Args:
            tokenize: as in `surprisal`.

        Raises: UserError for a model without such states, and for a text of probability 0.
        """
        read = Texts.read(self, [text], None, tokenize)
        (tokens,), (words,) = read.tokens, read.words()
        words = mark_unknown(words, self._known[next(read.ordered([tokens]))].tolist())
        with error_prefix(str(self.run.path)):
            return states(self.model, tokens, self.vocabulary.text_order(tokens), words)

    def perplexity(self, text: str | Path = "test", context: Context | None = None) -> float:
        """The perplexity of ``train``, ``valid`` or ``test``, or of a file of sentences, given labels if any.

            >>> lm.perplexity() == lm.results["perplexity"]["test"]
            True

        Args:
            context: as in `lmzoo.corpus.Context`; None takes the run's own.
        """
        of_split = str(text) in SPLITS
        if context is not None and (wrong := unfit(context, Context)):
            raise UserError(f"context={context}: must be {wrong}")
        parts = self.run.parts(str(text), self.vocabulary)
        score, lines, unknown = Score(), 0, 0
        for part, logprobs in scored_parts(self.model, self.vocabulary, parts, context or self.context):
            score.add(validated(logprobs, self.run.path))
            lines += int((part.tokens == EOS_ID).sum())
            unknown += int((~self._known[part.tokens]).sum())
        warn(unknown_warning(unknown, score.tokens, str(text)))
        warn(None if of_split else training_text_warning(self.run, Path(text)))
        if self.context == "stream" and not (context or of_split):
            warn(stream_warning(self.model, lines, 'context="sentence"'))
        return score.perplexity

    def line(self, text: str, condition: str | None = None) -> Line:
        """A line that stands alone, scored word by word.

        >>> lm.line("the value").known
        tensor([True, True, True])
        """
        return self._lines([text], condition)[0]

    def _lines(self, texts: Sequence[str], condition: str | None) -> list[Line]:
        return [line for group in self._groups(texts, condition) for line in group.each()]

    @cached_property
    def _log_shares(self) -> Tensor | None:
        """(V,) log2 of the share of each word in train; None, with a warning, if that is not there."""
        try:
            return log2_shares(self.run.split("train").tokens, len(self.vocabulary))
        except UserError as error:
            log.warning("log_frequency is missing: %s", error)
            return None

    def _groups(self, texts: Sequence[str], condition: str | None) -> Iterator[Lines]:
        number = label_number(condition, self.vocabulary)
        given = None if number is None else torch.full((len(texts),), number)
        return scored_texts(self.model, self.vocabulary, texts, "sentence", conditions=given)


def _listed(text: str | Iterable[str]) -> list[str]:
    """A text, or several, as a list."""
    if isinstance(text, str):
        return [text]
    if isinstance(text, bytes | Mapping) or hasattr(text, "columns") or not isinstance(text, Iterable):  # a data frame
        raise UserError(f"{shortened(' '.join(repr(text).split()))}: is neither a text nor a list of texts")
    return list(text)
