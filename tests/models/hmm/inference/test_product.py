"""An automaton times an HMM against sums over all strings."""

import math

import pytest
import torch
from block_hmm_oracle import dense_tables
from pattern_oracle import LETTERS, VOCABULARY, chi_squared, encoded, letters, make, matching, product

from lmzoo.core.errors import UserError
from lmzoo.models.combined.chains import chain_of
from lmzoo.models.hmm.inference import chains
from lmzoo.models.hmm.inference import product as product_module
from lmzoo.protocol.model import evaluating, models

PATTERNS = {
    "… a … & ..7": ".*a.*",
    "a _ b": "a.b",
    "not (… a b …) & 2..6": "(?!.*ab).{2,6}",
    "[a|b] … not [c] & 3..5": "(?=.{3,5}$)[ab].*[^c]",
    "… a … c … & ..5 & not (… d)": "(?=.{0,5}$)(?!.*d$).*a.*c.*",
    "..0": "",
}


def test_probabilities_are_sums_over_all_strings(example):
    model, logprobs = example
    for text, expression in PATTERNS.items():
        shares = {s: math.exp(logprobs[s]) for s in matching(expression)}
        found, total = product(model, text), sum(shares.values())
        assert math.exp(found.logprob) == pytest.approx(total, rel=1e-9), text
        assert found.left_out == 0
        for letter in LETTERS:
            expected = sum(p * s.count(letter) for s, p in shares.items()) / total
            counts = found.word_counts().sum(0)
            assert float(counts[VOCABULARY.index[letter]]) == pytest.approx(expected, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("kind", ["hmm", "twolevel_hmm"])
def test_sentences_of_any_length(kind: str):
    """What is left out is bounded, and a pattern and its negation have probability 1 together."""
    model = make(kind)
    for text in ("… a …", "a … b"):
        yes, no = product(model, text), product(model, f"not ({text})")
        assert math.exp(yes.logprob) + math.exp(no.logprob) == pytest.approx(1, abs=2e-7)
        assert yes.left_out == no.left_out == 0
        long, short = product(model, f"{text} & 3.."), product(model, f"{text} & ..2")
        assert math.exp(long.logprob) + math.exp(short.logprob) == pytest.approx(math.exp(yes.logprob), rel=1e-6)


def test_a_whole_sentence_has_its_score(example):
    model, logprobs = example
    for string in ("", "a", "dcba", "abcdabc"):
        text = " ".join(string) or "..0"
        assert product(model, text).logprob == pytest.approx(logprobs[string], abs=1e-9)


def test_samples_have_the_exact_distribution(example):
    model, logprobs = example
    found = product(model, "_ … [c|d] & ..4")
    texts = found.draw([torch.Generator().manual_seed(seed) for seed in range(4000)])
    assert abs(chi_squared(model, logprobs, [letters(text) for text in texts], "(?=.{0,4}$)..*[cd]")) < 4


def test_twenty_thousand_samples(dense):
    model, logprobs = dense
    texts = product(model, "… a … & ..5").draw([torch.Generator().manual_seed(seed) for seed in range(20_000)])
    assert abs(chi_squared(model, logprobs, [letters(text) for text in texts], "(?=.{0,5}$).*a.*")) < 4


def test_samples_of_any_length_and_a_limit(dense, monkeypatch: pytest.MonkeyPatch):
    model, _ = dense
    found = product(model, "… a …")
    randoms = [torch.Generator().manual_seed(seed) for seed in range(50)]
    assert all(VOCABULARY.index["a"] in text for text in found.draw(randoms))
    monkeypatch.setattr(product_module, "LONGEST_SENTENCE", 3)
    with pytest.raises(UserError, match="a sentence has over 3 words"):
        found.draw(randoms)


def test_large_models_compute_transitions_again(monkeypatch: pytest.MonkeyPatch):
    model = make("twolevel_hmm")
    expected = product(model, "… a … b").logprob
    monkeypatch.setattr(chains, "LARGEST", 0)
    assert product(model, "… a … b").logprob == pytest.approx(expected)


@torch.no_grad()
def test_transitions_between_some_clusters():
    """Those of few clusters are computed alone, then more of them, then all, of which few are used."""
    torch.manual_seed(0)
    options = {"name": "twolevel_hmm", "states": 10, "clusters": 5, "dim": 6, "state_dropout": 0.0}
    model = models.build(options, vocabulary_size=5).double().eval()
    chain = chain_of(model)
    transition = dense_tables(model, model.tables().active)[1]
    v = torch.randn(2, 10).double()
    for arriving in ([3], [0, 3], [1, 2, 3], [0, 1, 2, 3, 4], [2]):
        kept = torch.isin(torch.arange(10) // 2, torch.tensor(arriving))
        needed = torch.arange(10).expand(2, -1) // 2 != torch.tensor([[1], [4]])
        some = v.where(kept, -torch.inf)
        expected = (transition + some[:, None]).logsumexp(2)
        assert chain.step_backward(some, needed)[needed].tolist() == pytest.approx(expected[needed].tolist())
        leaving = (transition + some[:, :, None]).logsumexp(1)
        assert chain.step_forward(some, needed)[needed].tolist() == pytest.approx(leaving[needed].tolist())


def test_asking_leaves_the_tables_as_they_are(example):
    """Those of a frozen model are computed once, for scores as well."""
    model, logprobs = example
    tokens = torch.tensor([encoded("dcba")])
    with evaluating(model):
        product(model, "… a … b …  & ..5")
        logprob = model(tokens, model.initial_state(1))[0].sum()
    assert float(logprob) == pytest.approx(logprobs["dcba"])
