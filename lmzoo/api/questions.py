"""Exact questions in words: the probability of a pattern, the gaps of a sentence, and sentences under constraints."""

import logging
import math
from typing import NamedTuple

import torch

from lmzoo.core.errors import UserError
from lmzoo.core.options import Count, unfit
from lmzoo.corpus import EOS_ID, Context, Vocabulary
from lmzoo.corpus.form import require_one_direction
from lmzoo.models.combined import questions
from lmzoo.models.combined.chains import chain_of
from lmzoo.models.combined.constrained import Constrained
from lmzoo.models.hmm.inference.product import Product
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.patterns import LENGTH, Pattern, unknown_word
from lmzoo.protocol.sampling import LONGEST_SENTENCE

log = logging.getLogger(__name__)

LEFT_OUT = 1e-6
"""The share of a probability from which on a warning says that it is left out."""


def context_warning(path: object, context: Context) -> str | None:
    """A warning that a run of a stream, asked for sentences, has read only one beginning of a text."""
    if context == "sentence":
        return None
    return (
        f"{path}: reads a text as one stream, so it hardly knows how a sentence begins; "
        "train one with corpus.context=sentence for patterns and gaps"
    )


class Answer(NamedTuple):
    """The answer to a question about a pattern.

    Attributes:
        logprob: log p(pattern), or log p(pattern | given), in nats.
        counts: the expected number of occurrences of each word that was asked for, in a sentence that matches.
    """

    logprob: float
    counts: dict[str, float]


def ask(
    model: LanguageModel, vocabulary: Vocabulary, pattern: str, given: str | None = None, words: list[str] | None = None
) -> Answer:
    """The probability that a sentence matches a pattern; see `lmzoo.protocol.patterns`.

    Raises: UserError as `lmzoo.models.combined.questions.ask` and `Pattern.parse` do, and for unknown ``words``.
    """
    numbers = {word: vocabulary.index.get(word, EOS_ID) for word in words or []}
    if unknown := [word for word, number in numbers.items() if number == EOS_ID]:
        raise unknown_word("words", unknown[0], vocabulary)
    condition = None if given is None else Pattern.parse(given, vocabulary, "given")
    answer = questions.ask(model, Pattern.parse(pattern, vocabulary), condition)
    if answer.left_out > LEFT_OUT:
        log.warning(
            "sentences of over %d words, at most %.2g of the probability, are left out",
            LONGEST_SENTENCE, answer.left_out,
        )  # fmt: skip
    counts = {}
    if numbers and answer.logprob > -math.inf:
        with torch.no_grad():
            of_all = answer.product.word_counts().sum(0)
        counts = {word: float(of_all[number]) for word, number in numbers.items()}
    return Answer(answer.logprob, counts)


class Filled(NamedTuple):
    """What stands in the gaps of a sentence.

    Attributes:
        logprob: log p of the sentence in nats, all fillings together.
        gaps: the likeliest words of each gap with their probabilities; None for a gap of any number of words.
        best: the likeliest joint fillings that a beam search finds, as whole sentences, with their probabilities.
        samples: independent draws of whole sentences.
    """

    logprob: float
    gaps: list[list[tuple[str, float]] | None]
    best: list[tuple[str, float]]
    samples: list[str]


def fill(
    model: LanguageModel, vocabulary: Vocabulary, text: str, k: int = 5, samples: int = 0, seed: int = 0
) -> Filled:
    """The k likeliest words of each gap of a sentence, and its k likeliest joint fillings.

    Raises: UserError as `lmzoo.models.combined.questions.fill` and `Pattern.parse` do, and for a negative number.
    """
    for name, number in (("k", k), ("samples", samples)):
        if wrong := unfit(number, Count):
            raise UserError(f"{name}={number}: must be {wrong}")
    found = questions.fill(model, Pattern.parse(text, vocabulary, "text"), k, samples=samples, seed=seed)
    gaps = []
    for p in reversed(found.gaps) if vocabulary.form.reverse else found.gaps:
        best = None if p is None else p.topk(min(k, int((p > 0).sum())))
        gaps.append(best and [(vocabulary.words[word], float(q)) for q, word in zip(*best, strict=True)])
    best = [(vocabulary.decode(filling.tokens[:-1]), math.exp(filling.logprob)) for filling in found.best]
    return Filled(found.logprob, gaps, best, [vocabulary.decode(tokens[:-1]) for tokens in found.samples])


def constrained(
    model: LanguageModel,
    vocabulary: Vocabulary,
    pattern: str | None,
    length: str | int | None,
    guide: tuple[LanguageModel, Vocabulary] | None,
) -> Constrained:
    """A model of the sentences that match a pattern and have a length, such as ``"10..15"`` or 12.

    Args:
        guide: a hidden Markov model of the same words, if the model itself is none.

    Raises: UserError as `chain_of` and `Pattern.parse` do, for a guide with other words, if neither a pattern nor a
        length is given, and if no sentence matches.
    """
    window = None if length is None else str(length) if ".." in str(length) else f"{length}..{length}"
    if window and not LENGTH.fullmatch(window):
        raise UserError(f"length {length}: is not a number of words", "give one, or bounds such as 10..15")
    if pattern is None and window is None:
        raise UserError("there is no constraint", "give a pattern or a length")
    parsed = Pattern.parse(" & ".join(part for part in (pattern, window) if part is not None), vocabulary)
    base = None
    if guide is not None:
        base, (model, words) = model, guide
        require_one_direction("the model", vocabulary.form, "the guide", words.form)
        if words.words != vocabulary.words:
            raise UserError("the guide and the model have different vocabularies", "choose runs of the same corpus")
    with torch.no_grad():
        product = Product(chain_of(model, "the guide" if guide else "the model"), parsed.automaton())
    if product.logprob == -math.inf:
        raise UserError(f"'{parsed.text}': has probability 0 under this model")
    return Constrained(product, base)
