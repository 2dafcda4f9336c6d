"""Word by word: the sentences that match a pattern, and those of one model guided by another."""

import math
import re

import pytest
import torch
from pattern_oracle import LETTERS, VOCABULARY, encoded, letters, make, matching, product

from lmzoo.models.combined.constrained import Constrained
from lmzoo.protocol.sampling import sample


def test_word_by_word_probabilities_are_those_of_the_sentences(example):
    model, logprobs = example
    found = product(model, "… a _ & ..4")
    exact = Constrained(found)
    strings = matching("(?=.{0,4}$).*a.")
    tokens = torch.tensor([encoded(s) + [0] * (4 - len(s)) for s in [*strings, "bbb", "abc", "ba"]])
    with torch.no_grad():
        words, _ = exact(tokens, exact.initial_state(len(tokens)))
    inside = (tokens == 0).cumsum(1) - (tokens == 0).long() == 0
    for string, logprob in zip(strings, words.where(inside, 0.0).sum(1).tolist(), strict=False):
        assert logprob == pytest.approx(logprobs[string] - found.logprob, abs=1e-8)
    assert words.where(inside, 0.0).sum(1)[len(strings) :].isneginf().all()


def test_a_model_guided_by_itself_is_exact(example):
    model, _ = example
    found = product(model, "… b … & ..6")
    exact, guided = Constrained(found), Constrained(found, model)
    texts = [sample(each, None, 3, context="sentence", samples=20, sentences=1) for each in (exact, guided)]
    for (text, logprobs), (other, others) in zip(*(drawn.each() for drawn in texts), strict=True):
        assert text.tolist() == other.tolist()
        torch.testing.assert_close(logprobs, others)


def test_a_guided_model_keeps_to_the_pattern_and_to_its_formula(dense):
    guide, logprobs = dense
    base = make("neural_hmm", seed=1)
    guided = Constrained(product(guide, "… b & ..3"), base)
    state = guided.initial_state(1)
    with torch.no_grad():
        first = guided.predict(state)[0].exp()
        weights = torch.zeros(5).double()
        for letter in LETTERS:
            begun = {s: math.exp(p) for s, p in logprobs.items() if s.startswith(letter)}
            hit = sum(p for s, p in begun.items() if re.fullmatch("(?=.{0,3}$).*b", s))
            p_guide = float(guide.predict(guide.initial_state(1))[0, VOCABULARY.index[letter]].exp())
            p_base = float(base.predict(base.initial_state(1))[0, VOCABULARY.index[letter]].exp())
            weights[VOCABULARY.index[letter]] = p_base * hit / p_guide
    torch.testing.assert_close(first, weights / weights.sum())
    for text, _ in sample(guided, None, 0, context="sentence", samples=30, sentences=1).each():
        assert re.fullmatch("(?=.{0,3}$).*b", letters(text.tolist()))
