"""A trained language model, and what one asks of it."""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from inspect import signature
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from lmzoo.core.errors import UserError, nearest
from lmzoo.core.options import Count, unfit
from lmzoo.corpus import EOS_ID, Context, Vocabulary
from lmzoo.corpus.conditions import label_number
from lmzoo.corpus.corpus import SPLITS
from lmzoo.protocol.decoding import Decoding
from lmzoo.protocol.lines import (
    Line,
    as_read,
    encode_prompt,
    file_parts,
    known_words,
    scored,
    scored_parts,
    stream_warning,
    unknown_warning,
)
from lmzoo.protocol.model import LanguageModel, evaluating
from lmzoo.protocol.perplexity import Score, checked
from lmzoo.protocol.reader import Reader
from lmzoo.protocol.sampling import beam_search, sample
from lmzoo.runs.directory import Run
from lmzoo.runs.results import perplexities

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Loaded:
    """A trained model, its vocabulary, and what one asks of them.

    Words that the model does not know are read as `<unk>`. What gives words says which: ``xylophone→<unk>``. Of other
    texts the log has a warning.

    Texts are in their own order also where a run reads lines backwards (corpus.reverse=true) and has each word given
    those behind it; the beginning of a sentence that is asked for is its end then.

    ``model, vocabulary = lmzoo.load(RUN)`` takes the two out of it.
    """

    model: LanguageModel
    vocabulary: Vocabulary
    run: Run
    context: Context
    """What the model was trained with; `perplexity` and `sample` keep to it."""

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
        return f"<{name} of {len(self.vocabulary):,} words in {self.run.path}{backwards}{figures}>"

    @overload
    def score(self, text: str, condition: str | None = None) -> float: ...

    @overload
    def score(self, text: list[str], condition: str | None = None) -> list[float]: ...

    def score(self, text: str | list[str], condition: str | None = None) -> float | list[float]:
        """log p in nats of a line that stands alone, `<eos>` included; of several lines, of each by itself.

        Args:
            condition: its label, where the run's lines have labels; without it p(x) = Σ_c p(c) p(x | c). So it is in
                `surprisal` and `next_words`, too.
        """
        if isinstance(text, bytes) or not isinstance(text, Iterable):
            raise UserError(f"{text!r}: is neither a text nor a list of texts")
        lines = self._lines([text] if isinstance(text, str) else list(text), condition)
        _warn(unknown_warning(sum(line.unknown for line in lines), sum(len(line.words) for line in lines), "text"))
        logprobs = [line.logprob for line in lines]
        return logprobs[0] if isinstance(text, str) else logprobs

    def surprisal(self, text: str, condition: str | None = None) -> list[tuple[str, float]]:
        """-log2 p in bits of each word of a line that stands alone, and of its `<eos>`.

        A word that the model does not know is given with what is read in its place, as in ``xylophone→<unk>``; the bits
        are those of `<unk>`.
        """
        line = self.line(text, condition)
        return list(zip(as_read(line.words, line.known), (-line.logprobs / math.log(2)).tolist(), strict=True))

    def next_words(self, text: str, number: int = 10, condition: str | None = None) -> list[tuple[str, float]]:
        """The likeliest words after the beginning of a sentence, written as in `surprisal`, and their probabilities."""
        reader = self._reader(condition)
        with evaluating(self.model):
            if (prefix := self._encode_prompt(text)) is not None:
                reader.read(prefix)
            return self._likeliest(reader, number)

    def expected(self, text: str, number: int = 3, condition: str | None = None) -> list[list[tuple[str, float]]]:
        """For each word of a line that stands alone, and its `<eos>`: what `next_words` says before it is read."""
        tokens, reader, found = self.vocabulary.encode([text]), self._reader(condition), []
        with evaluating(self.model):
            for token in tokens:
                found.append(self._likeliest(reader, number))
                reader.read(token[None])
        return [found[place] for place in self.vocabulary.text_order(tokens).tolist()]

    def sample(
        self,
        tokens: int | None = None,
        seed: int = 0,
        *,
        sentences: int | None = None,
        prompt: str = "",
        samples: int = 1,
        condition: str | None = None,
        unknown: bool = True,
        **decoding: Any,
    ) -> list[str]:
        """Texts drawn side by side, of so many tokens (60) or whole sentences.

        Args:
            seed: of the first text; the next has the next number.
            condition: the label of all of them, where the run's lines have labels; without it, one is drawn for each.
            unknown: whether `<unk>` may be drawn.
            decoding: ``temperature``, ``top_k``, ``top_p``, ``typical``, ``repetition``; see
                `lmzoo.protocol.decoding.Decoding`.
        """
        names = {field.name for field in fields(Decoding)}
        if unfamiliar := sorted(decoding.keys() - names):
            others = signature(self.sample).parameters.keys() - {"decoding"}
            raise UserError(f"{unfamiliar[0]}: no such option of sample", nearest(unfamiliar[0], names | others))
        prefix = self._encode_prompt(prompt)
        drawn = sample(
            self.model, 60 if tokens is None and sentences is None else tokens, seed,
            context=self.context, decoding=Decoding(**decoding), prompt=prefix, samples=samples,
            condition=label_number(condition, self.vocabulary), sentences=sentences, allowed=self._allowed(unknown),
        )  # fmt: skip
        first = [] if prefix is None else prefix.tolist()
        return [self.vocabulary.decode([*first, *text.tolist()]) for text, _ in drawn.each()]

    def beam_search(
        self,
        width: int = 10,
        longest: int = 60,
        *,
        prompt: str = "",
        condition: str | None = None,
        unknown: bool = True,
    ) -> list[tuple[str, float]]:
        """The likeliest sentences that a beam search finds, written as in `sample`, and log p in nats after the prompt.

        Args:
            longest: most tokens of a sentence, `<eos>` included; what is not over by then is cut off.
            condition: their label, where the run's lines have labels.
            unknown: whether they may have `<unk>`.
        """
        prefix = self._encode_prompt(prompt)
        found = beam_search(
            self.model, width, longest,
            prompt=prefix, condition=label_number(condition, self.vocabulary), allowed=self._allowed(unknown),
        )  # fmt: skip
        first = [] if prefix is None else prefix.tolist()
        return [(self.vocabulary.decode([*first, *sentence.tokens]), sentence.logprob) for sentence in found]

    def perplexity(self, text: str | Path = "test", context: Context | None = None) -> float:
        """The perplexity of ``train``, ``valid`` or ``test``, or of a file of sentences, given labels if any.

        Args:
            context: as in `lmzoo.corpus.Context`; None takes the run's own.
        """
        of_split = str(text) in SPLITS
        if context is not None and (wrong := unfit(context, Context)):
            raise UserError(f"context={context}: must be {wrong}")
        parts = [self.run.split(str(text))] if of_split else file_parts(self.vocabulary, Path(text))
        score, lines, unknown, is_known = Score(), 0, 0, known_words(self.model, self.vocabulary)
        for part, logprobs in scored_parts(self.model, self.vocabulary, parts, context or self.context):
            score.add(checked(logprobs, self.run.path))
            lines += int((part.tokens == EOS_ID).sum())
            unknown += int((~is_known[part.tokens]).sum())
        _warn(unknown_warning(unknown, score.tokens, str(text)))
        if self.context == "stream" and not (context or of_split):
            _warn(stream_warning(self.model, lines, 'context="sentence"'))
        return score.perplexity

    def line(self, text: str, condition: str | None = None) -> Line:
        """A line that stands alone, scored word by word."""
        return self._lines([text], condition)[0]

    def _lines(self, texts: Sequence[str], condition: str | None) -> list[Line]:
        number = label_number(condition, self.vocabulary)
        given = None if number is None else torch.full((len(texts),), number)
        return list(scored(self.model, self.vocabulary, texts, "sentence", conditions=given))

    def _allowed(self, unknown: bool) -> Tensor | None:
        """(V,) bool, the words that may be drawn; None for all."""
        return None if unknown else known_words(self.model, self.vocabulary)

    def _reader(self, condition: str | None) -> Reader:
        return Reader(self.model, self.run.path, label_number(condition, self.vocabulary))

    def _likeliest(self, reader: Reader, number: int) -> list[tuple[str, float]]:
        if wrong := unfit(number, Count):
            raise UserError(f"number={number}: must be {wrong}")
        p = reader.next_words()
        best = p.topk(min(number, len(p)))
        words = [self.vocabulary.words[word] for word in best.indices.tolist()]
        is_known = known_words(self.model, self.vocabulary)[best.indices]
        return list(zip(as_read(words, is_known), best.values.tolist(), strict=True))

    def _encode_prompt(self, text: str) -> Tensor | None:
        """(N,) words, without `<eos>`; None where there is none."""
        tokens, warning = encode_prompt(self.model, self.vocabulary, text, "text")
        _warn(warning)
        return tokens


def _warn(warning: str | None) -> None:
    if warning:
        log.warning(warning)
