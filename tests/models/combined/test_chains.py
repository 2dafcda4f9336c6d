"""Mixtures and n-grams as hidden Markov models."""

import itertools
import math

import pytest
import torch
from pattern_oracle import LETTERS, VOCABULARY, chi_squared, encoded, letters, make, matching, product, scores

from lmzoo.models.combined.chains import ChainMixture, chain_of
from lmzoo.models.combined.constrained import Constrained
from lmzoo.models.hmm.inference.product import Product
from lmzoo.models.ngram.ngram import NGram
from lmzoo.protocol.patterns import Pattern


def test_a_mixture_of_chains():
    one, other = make("hmm"), make("twolevel_hmm", seed=2)
    first, second = scores(one), scores(other)
    with torch.no_grad():
        chain = ChainMixture([chain_of(one), chain_of(other)], torch.tensor([0.3, 0.7]))
        found = Product(chain, Pattern.parse("… a _ & ..4", VOCABULARY).automaton())
    strings = matching("(?=.{0,4}$).*a.")
    mixed = {s: 0.3 * math.exp(first[s]) + 0.7 * math.exp(second[s]) for s in strings}
    assert math.exp(found.logprob) == pytest.approx(sum(mixed.values()))
    expected = sum(p * s.count("b") for s, p in mixed.items()) / sum(mixed.values())
    assert float(found.word_counts().sum(0)[2]) == pytest.approx(expected)
    exact = Constrained(found)
    with torch.no_grad():
        logprob = exact(torch.tensor([encoded("bac")]), exact.initial_state(1))[0].sum()
    assert float(logprob) == pytest.approx(math.log(mixed["bac"] / sum(mixed.values())))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_an_ngram_is_a_chain_of_contexts(order: int):
    torch.manual_seed(0)
    text = torch.randint(5, (400,), generator=torch.Generator().manual_seed(1))
    model = NGram(vocabulary_size=5, order=order)
    corpus = type("Text", (), {"splits": {"train": torch.cat([text, torch.zeros(1, dtype=torch.int64)])}})
    model.estimate(corpus)
    model = model.double().eval()
    found = product(model, "… a _ & ..4")
    with torch.no_grad():
        logprobs = {
            "".join(s): float(model(torch.tensor([encoded("".join(s))]), model.initial_state(1))[0].sum())
            for n in range(5) for s in itertools.product(LETTERS, repeat=n)
        }  # fmt: skip
    shares = {s: math.exp(logprobs[s]) for s in matching("(?=.{0,4}$).*a.")}
    assert math.exp(found.logprob) == pytest.approx(sum(shares.values()), rel=1e-6)
    expected = sum(p * s.count("b") for s, p in shares.items()) / sum(shares.values())
    assert float(found.word_counts().sum(0)[2]) == pytest.approx(expected, rel=1e-6)
    texts = found.draw([torch.Generator().manual_seed(seed) for seed in range(2000)])
    assert abs(chi_squared(model, logprobs, [letters(text) for text in texts], "(?=.{0,4}$).*a.")) < 4
