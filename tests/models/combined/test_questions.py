"""Conditional probabilities and filled gaps against sums over all strings."""

import math

import pytest
import torch
from pattern_oracle import LETTERS, VOCABULARY, make, matching

from lmzoo.api import questions
from lmzoo.api.questions import ask, constrained, fill
from lmzoo.core.errors import UserError
from lmzoo.protocol.model import models
from lmzoo.protocol.sampling import Decoding


def joined(sentence: str) -> str:
    return sentence.replace(" ", "")


def test_gaps_have_the_shares_of_scored_sentences(example):
    model, logprobs = example
    for text, expression in (
        ("a ___ b _", "a.b."),
        ("_ … c & ..6", "(?=.{0,6}$)..*c"),
        ("[a|c] … & ..4", "(?=.{0,4}$)[ac].*"),
    ):
        shares = {s: math.exp(logprobs[s]) for s in matching(expression)}
        total = sum(shares.values())
        found = fill(model, VOCABULARY, text, 6)
        assert found.logprob == pytest.approx(math.log(total))
        best = sorted(shares, key=lambda s: -shares[s])[:6]
        assert {joined(sentence) for sentence, _ in found.best} == {*best}  # some are as likely as others
        assert [p for _, p in found.best] == pytest.approx([shares[s] / total for s in best])
        for gap, place in zip(found.gaps, (1, 3) if text[0] == "a" else (0, None), strict=True):
            if gap is not None:
                expected = {x: sum(p for s, p in shares.items() if s[place] == x) / total for x in LETTERS}
                assert dict(gap) == pytest.approx({x: p for x, p in expected.items() if p}, abs=1e-9)
                assert sum(p for _, p in gap) == pytest.approx(1)


def test_best_sentences_are_whole_however_long(dense, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(questions, "LONGEST", 2)
    model, logprobs = dense
    found = fill(model, VOCABULARY, "a b c ___", 4)
    assert {joined(sentence) for sentence, _ in found.best} == {f"abc{letter}" for letter in LETTERS}
    found = fill(model, VOCABULARY, "a …", 9)
    best = sorted((s for s in logprobs if s[:1] == "a" and len(s) < 3), key=lambda s: -logprobs[s])
    assert [joined(sentence) for sentence, _ in found.best] == best


def test_conditional_probabilities(dense):
    model, logprobs = dense
    shares = {s: math.exp(p) for s, p in logprobs.items() if s.startswith("a")}
    expected = sum(p for s, p in shares.items() if "b" in s) / sum(shares.values())
    assert math.exp(ask(model, VOCABULARY, "… b …", "a … & ..7").logprob) == pytest.approx(expected)


def test_what_has_no_exact_answer_is_refused(dense):
    model, _ = dense
    with pytest.raises(UserError, match="the model gives no exact probabilities of patterns; hidden Markov models"):
        ask(models.build({"name": "lstm", "hidden": 4}, vocabulary_size=5), VOCABULARY, "… a …")
    for text, problem in (("… a …", "several gaps"), ("a b", "has no gap"), ("a & _", "is not one sentence")):
        with pytest.raises(UserError, match=problem):
            fill(model, VOCABULARY, text, 1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", ["hmm", "twolevel_hmm", "lowrank_hmm"])
def test_cuda_answers_as_a_cpu(kind: str):
    model = make(kind)

    def answers():
        found = ask(model, VOCABULARY, "… a _ & ..5", words=[*LETTERS]), fill(model, VOCABULARY, "a ___ … & ..4", 3)
        return found, constrained(model, VOCABULARY, "… a _ & ..5", None, None).sentences(3, 0, Decoding())

    (expected, filled), drawn = answers()
    model.cuda()
    (found, again), same = answers()
    assert found.logprob == pytest.approx(expected.logprob)
    assert found.counts == pytest.approx(expected.counts)
    assert [sentence for sentence, _ in again.best] == [sentence for sentence, _ in filled.best]
    assert same == drawn
