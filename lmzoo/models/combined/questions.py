"""Exact questions to a hidden Markov model: how probable is a pattern, and what stands in the gaps of a sentence?"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS_ID
from lmzoo.models.combined.chains import chain_of
from lmzoo.models.combined.constrained import Constrained
from lmzoo.models.hmm.inference.product import Product
from lmzoo.protocol.model import LanguageModel
from lmzoo.protocol.patterns import Pattern
from lmzoo.protocol.sampling import Candidate, Decoding, beam_search


class Answer(NamedTuple):
    """What a model knows of the sentences that match a pattern."""

    logprob: float
    """log p(pattern) in nats, or log p(pattern | given)."""
    left_out: float
    """An upper bound of the probability of very long sentences that are left out, as a share of p(pattern)."""
    product: Product
    """That of the pattern and what is given."""


@torch.no_grad()
def ask(model: LanguageModel, pattern: Pattern, given: Pattern | None = None) -> Answer:
    """The probability of a pattern, or of a pattern given another.

    Raises: UserError if the model gives no such probabilities, the pattern is unsuitable, or what is given has
        probability 0.
    """
    chain = chain_of(model)
    if given is None:
        product = Product(chain, pattern.automaton())
        return Answer(product.logprob, _share(product), product)
    condition, both = (Product(chain, part.automaton()) for part in (given, given & pattern))
    if condition.logprob == -math.inf:
        raise UserError(f"'{given.text}': has probability 0 under this model, so it cannot be a condition")
    return Answer(both.logprob - condition.logprob, _share(condition) + _share(both), both)


def _share(product: Product) -> float:
    return product.left_out / (math.exp(product.logprob) or 1.0)


class Fillings(NamedTuple):
    """What stands in the gaps of a text."""

    logprob: float
    """log p of the text, all fillings together, in nats."""
    gaps: list[Tensor | None]
    """For each gap the (V,) probabilities of its word; None for a gap of any number of words."""
    best: list[Candidate]
    """The likeliest sentences with all gaps filled that a beam search finds, and log p(sentence | text)."""
    samples: list[list[int]]
    """Independent draws of sentences."""


@torch.no_grad()
def fill(model: LanguageModel, pattern: Pattern, k: int, *, samples: int = 0, seed: int = 0) -> Fillings:
    """The posterior of the gaps of a text, which are all places where not just one word may stand.

    Raises: UserError as `ask` does, and if there is no gap, or more than one of any number of words, as it is then
        not determined which words of a sentence are in which gap.
    """
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
    counts = aligned.word_counts()
    constrained = Constrained(matching)
    found = beam_search(constrained, max(k, BEAM), len(places.places) + LONGEST)
    best = [sentence for sentence in found if sentence.tokens[-1] == EOS_ID][:k]  # others are cut off
    marginals = [counts[gap] if of_a_word else None for gap, of_a_word in gaps]
    drawn = constrained.sentences(samples, seed, Decoding())
    return Fillings(matching.logprob, marginals, best, drawn)


BEAM, LONGEST = 50, 200
"""The least width of a beam search, and the largest number of tokens in the place of … and of `<eos>`."""
