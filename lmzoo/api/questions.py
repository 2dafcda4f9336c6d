"""Exact questions in words: the probability of a pattern, the gaps of a sentence, and sentences under constraints."""

import logging
import math
from typing import NamedTuple

import torch

from lmzoo.core.errors import UserError
from lmzoo.core.options import Count, require
from lmzoo.corpus import EOS_ID, Context, Vocabulary
from lmzoo.corpus.form import require_one_direction
from lmzoo.models.combined.chains import chain_of
from lmzoo.models.combined.constrained import Constrained
from lmzoo.models.hmm.inference.product import Product
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.patterns import LENGTH, Pattern, unknown_word
from lmzoo.protocol.sampling import LONGEST_SENTENCE, beam_search

log = logging.getLogger(__name__)

BEAM, LONGEST = 50, 200
"""The least width of a beam search, and the largest number of tokens in the place of … and of `<eos>`."""

LEFT_OUT = 1e-6
"""The share of a probability above which a warning says that sentences too long to be counted may have it."""


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


@torch.no_grad()
def ask(
    model: LanguageModel, vocabulary: Vocabulary, pattern: str, given: str | None = None, words: list[str] | None = None
) -> Answer:
    """The probability that a sentence matches a pattern, or that it does if it matches another.

    Raises: UserError as `chain_of` and `Pattern.parse` do, for unknown ``words``, and if what is given has probability
        0.
    """
    numbers = {word: vocabulary.index.get(word, EOS_ID) for word in words or []}
    if unknown := [word for word, number in numbers.items() if number == EOS_ID]:
        raise unknown_word("words", unknown[0], vocabulary)
    parsed, chain, logprob, left_out = Pattern.parse(pattern, vocabulary), chain_of(model), 0.0, 0.0
    if given is not None:
        condition = Pattern.parse(given, vocabulary, "given")
        divisor, parsed = Product(chain, condition.automaton()), condition & parsed
        if divisor.logprob == -math.inf:
            raise UserError(f"'{given}': has probability 0 under this model, so it cannot be a condition")
        logprob, left_out = -divisor.logprob, _share(divisor)
    product = Product(chain, parsed.automaton())
    logprob, left_out = logprob + product.logprob, left_out + _share(product)
    if left_out > LEFT_OUT:
        log.warning(
            "sentences of over %d words, at most %.2g of the probability, are left out", LONGEST_SENTENCE, left_out
        )
    counts = {}
    if numbers and logprob > -math.inf:
        of_all = product.word_counts().sum(0)
        counts = {word: float(of_all[number]) for word, number in numbers.items()}
    return Answer(logprob, counts)


def _share(product: Product) -> float:
    """An upper bound of the probability of very long sentences that are left out, as a share of the whole."""
    return product.left_out / (math.exp(product.logprob) or 1.0)


class Filled(NamedTuple):
    """What stands in the gaps of a sentence.

    Attributes:
        logprob: log p of the sentence in nats, all fillings together.
        gaps: the likeliest words of each gap with their probabilities; None for a gap of any number of words.
        best: the likeliest joint fillings that a beam search finds, as whole sentences, with their probabilities.
    """

    logprob: float
    gaps: list[list[tuple[str, float]] | None]
    best: list[tuple[str, float]]


@torch.no_grad()
def fill(model: LanguageModel, vocabulary: Vocabulary, text: str, k: int = 5) -> Filled:
    """The k likeliest words of each gap of a sentence, and its k likeliest joint fillings.

    The gaps are all places where not just one word may stand.

    Raises: UserError as `chain_of` and `Pattern.parse` do, for a negative number, and if there is no gap, or more than
        one of any number of words, as it is then not determined which words of a sentence are in which gap.
    """
    require(Count, k=k)
    pattern = Pattern.parse(text, vocabulary, "text")
    if len(pattern.sequences) != 1 or pattern.sequences[0].negated:
        raise UserError(f"'{pattern.text}': is not one sentence with gaps", "lmzoo ask supports other patterns")
    (places,) = pattern.sequences
    if len(places.gaps) > 1:
        problem = f"'{pattern.text}': has several gaps of any number of words, so their words are not determined"
        raise UserError(problem, "leave one … alone; lmzoo ask gives the probability of such a pattern")
    single = [(number, True) for number, place in enumerate(places.places) if place.negated or len(place.words) > 1]
    gaps = sorted([*single, *((number, False) for number in places.gaps)])  # places, and whether they have one word
    if not gaps:
        raise UserError(f"'{pattern.text}': has no gap", "write ___ for a word, … for any number of words")
    chain = chain_of(model)
    aligned, matching = Product(chain, pattern.alignment()), Product(chain, pattern.automaton())
    if matching.logprob == -math.inf:
        raise UserError(f"'{pattern.text}': has probability 0 under this model, however it is filled")
    counts, likeliest = aligned.word_counts(), []
    for gap, of_a_word in reversed(gaps) if vocabulary.form.reverse else gaps:
        best = counts[gap].topk(min(k, int((counts[gap] > 0).sum()))) if of_a_word else None
        likeliest.append(best and [(vocabulary.words[word], float(p)) for word, p in zip(*reversed(best), strict=True)])
    found = beam_search(Constrained(matching), max(k, BEAM), len(places.places) + LONGEST)
    whole = [sentence for sentence in found if sentence.tokens[-1] == EOS_ID][:k]  # others are cut off
    joint = [(vocabulary.decode(filling.tokens[:-1]), math.exp(filling.logprob)) for filling in whole]
    return Filled(matching.logprob, likeliest, joint)


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
    require(str | None, pattern=pattern)
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
