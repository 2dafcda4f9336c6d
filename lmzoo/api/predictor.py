"""What a trained language model predicts, and the texts that it draws."""

import logging
import math
from dataclasses import dataclass, fields
from inspect import signature
from typing import Any

from torch import Tensor

from lmzoo.api import questions
from lmzoo.core.errors import UserError, nearest
from lmzoo.core.options import Count, Size, require
from lmzoo.corpus import Context, Vocabulary
from lmzoo.corpus.conditions import label_number, unlabelled
from lmzoo.protocol.lines import encode_prompt, known_words, mark_unknown
from lmzoo.protocol.model import LanguageModel, evaluating
from lmzoo.protocol.reader import Reader
from lmzoo.protocol.sampling import Decoding, beam_search, sample
from lmzoo.runs.directory import Run

log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class Predictor:
    """A trained model with its vocabulary, and the words that it expects."""

    model: LanguageModel
    vocabulary: Vocabulary
    run: Run
    context: Context
    """What the model was trained with; `perplexity` and `sample` keep to it."""

    def next_words(self, text: str, number: int = 10, condition: str | None = None) -> list[tuple[str, float]]:
        """The likeliest words after the beginning of a sentence, written as in `surprisal`, and their probabilities.

        >>> lm.next_words("the value of", 2)
        [('the', 0...), (..., 0...)]
        """
        reader = self._reader(condition)
        with evaluating(self.model):
            if (prefix := self._encode_prompt(text)) is not None:
                reader.read(prefix)
            return self._likeliest(reader, number)

    def expected(self, text: str, number: int = 3, condition: str | None = None) -> list[list[tuple[str, float]]]:
        """For each word of a line that stands alone, and its `<eos>`: what `next_words` says before it is read.

        >>> [words[0] for words in lm.expected("the value")]
        [('the', 0...), (..., 0...), ('of', 0...)]
        """
        tokens = self.vocabulary.encode(unlabelled([text], self.vocabulary, "text"))
        reader, found = self._reader(condition), []
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
        pattern: str | None = None,
        length: str | int | None = None,
        guide: "Predictor | None" = None,
        **decoding: Any,
    ) -> list[str]:
        """Sample texts, each of ``tokens`` tokens (60 by default) or of ``sentences`` whole sentences.

            >>> lm.sample(sentences=1, prompt="the value", samples=2, top_p=0.9)
            ['the value ... <eos>', 'the value ... <eos>']

        With a pattern or a length each is one sentence from p(x | pattern), `<eos>` left out.

        Args:
            seed: of the first text; the next has the next number.
            condition: the label of all of them, where the run's lines have labels; without it, one is drawn for each.
            unknown: whether `<unk>` may be drawn.
            pattern: see `lmzoo.protocol.patterns`; exact if the model is an HMM.
            length: the number of words of the sentence, the prompt included, or bounds such as ``"10..15"``.
            guide: an HMM of the same vocabulary that guides a model of another kind (Ctrl-G, Zhang et al. 2024).
            decoding: ``temperature``, ``top_k``, ``top_p``; see `lmzoo.protocol.sampling.Decoding`.
        """
        names = {field.name for field in fields(Decoding)}
        if unfamiliar := sorted(decoding.keys() - names):
            others = signature(self.sample).parameters.keys() - {"decoding"}
            raise UserError(f"{unfamiliar[0]}: no such option of sample", nearest(unfamiliar[0], names | others))
        require(Size, samples=samples)
        prefix = self._encode_prompt(prompt)
        first = [] if prefix is None else prefix.tolist()
        if any(option is not None for option in (pattern, length, guide)):
            if tokens is not None or sentences is not None or condition is not None:
                raise UserError("with pattern or length, samples is the number of sentences",
                                "leave out tokens, sentences and condition")  # fmt: skip
            if not isinstance(guide, Predictor | None):
                raise UserError(f"guide={guide}: is no loaded model", "give lmzoo.load(RUN)")
            hmm = guide or self
            other = None if guide is None else (guide.model, guide.vocabulary)
            model = questions.constrained(self.model, self.vocabulary, pattern, length, other)
            warn(questions.context_warning(hmm.run.path, hmm.context))
            found = model.sentences(samples, seed, Decoding(**decoding), prompt=prefix, allowed=self._allowed(unknown))
            return [self.vocabulary.decode([*first, *text[:-1]]) for text in found]
        drawn = sample(
            self.model, 60 if tokens is None and sentences is None else tokens, seed,
            context=self.context, decoding=Decoding(**decoding), prompt=prefix, samples=samples,
            condition=label_number(condition, self.vocabulary), sentences=sentences, allowed=self._allowed(unknown),
        )  # fmt: skip
        return [self.vocabulary.decode([*first, *text.tolist()]) for text, _ in drawn.each()]

    def probability(self, pattern: str, given: str | None = None) -> float:
        """The probability that a sentence matches a pattern, or that it does if it matches another; exact for HMMs.

            >>> 0 < hmm.probability("… value …", given="the …") < 1
            True

        The items of patterns are described in `lmzoo.protocol.patterns`.
        """
        answer = questions.ask(self.model, self.vocabulary, pattern, given)
        warn(questions.context_warning(self.run.path, self.context))
        return math.exp(answer.logprob)

    def fill(self, text: str, k: int = 5) -> questions.Filled:
        """The likeliest words of each gap of a sentence, exact for HMMs, and joint fillings found by a beam search.

        >>> hmm.fill("the ___ of").best
        [...]
        """
        filled = questions.fill(self.model, self.vocabulary, text, k)
        warn(questions.context_warning(self.run.path, self.context))
        return filled

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

            >>> lm.beam_search(width=2, prompt="the value of")
            [('the value of ...', -...), ('the value of ...', -...)]

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

    @property
    def _known(self) -> Tensor:
        """(V,) bool, the words that the model knows."""
        return known_words(self.model, self.vocabulary)

    def _allowed(self, unknown: bool) -> Tensor | None:
        """(V,) bool, the words that may be drawn; None for all."""
        return None if unknown else self._known

    def _reader(self, condition: str | None) -> Reader:
        return Reader(self.model, self.run.path, label_number(condition, self.vocabulary))

    def _likeliest(self, reader: Reader, number: int) -> list[tuple[str, float]]:
        require(Count, number=number)
        p = reader.next_words()
        best = p.topk(min(number, len(p)))
        words = [self.vocabulary.words[word] for word in best.indices.tolist()]
        is_known = self._known[best.indices].tolist()
        return list(zip(mark_unknown(words, is_known), best.values.tolist(), strict=True))

    def _encode_prompt(self, text: str) -> Tensor | None:
        """(N,) words, without `<eos>`; None where there is none."""
        tokens, warning = encode_prompt(self.model, self.vocabulary, text, "text")
        warn(warning)
        return tokens


def warn(warning: str | None) -> None:
    """Log a warning, if there is one."""
    if warning:
        log.warning(warning)
