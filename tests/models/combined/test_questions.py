"""Conditional probabilities and filled gaps against sums over all strings."""

import math

import pytest
import torch
from pattern_oracle import LETTERS, VOCABULARY, letters, make, matching

from lmzoo.core.errors import UserError
from lmzoo.models.combined import questions
from lmzoo.models.combined.constrained import Constrained
from lmzoo.models.combined.questions import ask, fill
from lmzoo.protocol.model import models
from lmzoo.protocol.patterns import Pattern
from lmzoo.protocol.sampling import Decoding


def test_gaps_have_the_shares_of_scored_sentences(example):
    model, logprobs = example
    for text, expression in (
        ("a ___ b _", "a.b."),
        ("_ … c & ..6", "(?=.{0,6}$)..*c"),
        ("[a|c] … & ..4", "(?=.{0,4}$)[ac].*"),
    ):
        shares = {s: math.exp(logprobs[s]) for s in matching(expression)}
        total = sum(shares.values())
        found = fill(model, Pattern.parse(text, VOCABULARY), 6, samples=2)
        assert found.logprob == pytest.approx(math.log(total))
        best = sorted(shares, key=lambda s: -shares[s])[:6]
        assert {letters(filling.tokens) for filling in found.best} == {*best}  # some are as likely as others
        assert [math.exp(filling.logprob) for filling in found.best] == pytest.approx([shares[s] / total for s in best])
        for gap, place in zip(found.gaps, (1, 3) if text[0] == "a" else (0, None), strict=True):
            if gap is not None:
                for letter in LETTERS:
                    expected = sum(p for s, p in shares.items() if s[place] == letter) / total
                    assert float(gap[VOCABULARY.index[letter]]) == pytest.approx(expected, abs=1e-9)
                assert float(gap.sum()) == pytest.approx(1)
        assert {letters(tokens) for tokens in found.samples} <= {*shares}


def test_best_sentences_are_whole_however_long(dense, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(questions, "LONGEST", 2)
    model, logprobs = dense
    found = fill(model, Pattern.parse("a b c ___", VOCABULARY), 4)
    assert {letters(filling.tokens) for filling in found.best} == {f"abc{letter}" for letter in LETTERS}
    found = fill(model, Pattern.parse("a …", VOCABULARY), 9)
    best = sorted((s for s in logprobs if s[:1] == "a" and len(s) < 3), key=lambda s: -logprobs[s])
    assert [letters(filling.tokens) for filling in found.best] == best


def test_conditional_probabilities(dense):
    model, logprobs = dense
    pattern, given = (Pattern.parse(text, VOCABULARY) for text in ("… b …", "a … & ..7"))
    shares = {s: math.exp(p) for s, p in logprobs.items() if s.startswith("a")}
    expected = sum(p for s, p in shares.items() if "b" in s) / sum(shares.values())
    assert math.exp(ask(model, pattern, given).logprob) == pytest.approx(expected)


def test_what_has_no_exact_answer_is_refused(dense):
    model, _ = dense
    pattern = Pattern.parse("… a …", VOCABULARY)
    with pytest.raises(UserError, match="the model gives no exact probabilities of patterns; hidden Markov models"):
        ask(models.build({"name": "lstm", "hidden": 4}, vocabulary_size=5), pattern)
    for text, problem in (("… a …", "several gaps"), ("a b", "has no gap"), ("a & _", "is not one sentence")):
        with pytest.raises(UserError, match=problem):
            fill(model, Pattern.parse(text, VOCABULARY), 1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", ["hmm", "twolevel_hmm", "lowrank_hmm"])
def test_cuda_answers_as_a_cpu(kind: str):
    model = make(kind)
    pattern, text = (Pattern.parse(p, VOCABULARY) for p in ("… a _ & ..5", "a ___ … & ..4"))
    expected, filled = ask(model, pattern), fill(model, text, 3, samples=2)
    counts, drawn = expected.product.word_counts().sum(0), Constrained(expected.product).sentences(3, 0, Decoding())
    model.cuda()
    found = ask(model, pattern)
    assert found.product.messages.is_cuda
    assert found.logprob == pytest.approx(expected.logprob)
    torch.testing.assert_close(found.product.word_counts().sum(0).cpu(), counts)
    assert Constrained(found.product).sentences(3, 0, Decoding()) == drawn
    guided = Constrained(found.product, model).sentences(3, 0, Decoding())
    assert all(len(tokens) <= 6 for tokens in guided)
    assert [filling.tokens for filling in fill(model, text, 3, samples=2).best] == [f.tokens for f in filled.best]
