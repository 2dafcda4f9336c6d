"""`check_model`: the model of a page keeps every rule, and of a broken one the broken rule is reported."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from command_line import ROOT
from torch import Tensor

from lmzoo.core.configs import defaults
from lmzoo.core.errors import UserError
from lmzoo.corpus import EOS_ID, Corpus
from lmzoo.models.ngram.ngram import NGram
from lmzoo.testing import RULES, check_model, outcomes, subject

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/models.md").read_text("utf-8"), re.DOTALL)
SHOWN: dict[str, Any] = {"__name__": "shown"}
exec(compile(next(block for block in BLOCKS if "class Elman" in block), "models.md", "exec"), SHOWN)
Elman: Any = SHOWN["Elman"]


def test_the_page_checks_a_model_that_is_right():
    (check,) = [block for block in BLOCKS if "check_model" in block]
    exec(compile(check, "models.md", "exec"), SHOWN)


def test_every_rule_applies_to_it_but_that_of_models_that_forget(corpus: Corpus):
    found = list(outcomes(subject(partial(Elman, vocabulary_size=150, hidden=8), corpus)))
    assert len(found) == len(RULES)
    assert not [outcome for outcome in found if outcome.broken]
    assert [outcome.left_out for outcome in found if outcome.left_out] == ["remembers across `<eos>`"]


class Unnormalised(Elman):
    def predict(self, state: Any) -> Tensor:
        return self.O(state[0])


class ReadsItsWord(Elman):
    """Each word helps to predict itself."""

    def forward(self, tokens: Tensor, state: Any) -> Any:
        scores, (h,) = [], state
        for words in tokens.split(1, dim=1):
            h = torch.tanh(self.E(words[:, 0]) + self.U(h))
            scores.append(self.predict((h,)).gather(1, words))
        return torch.cat(scores, 1), (h,)


class LosesAWord(Elman):
    def forward(self, tokens: Tensor, state: Any) -> Any:
        scores, state = super().forward(tokens, state)
        return scores[:, 1:], state


class LosesAWordOfASentence(LosesAWord):
    whole_sentences = True


class ReturnsScoresAlone(Elman):
    def forward(self, tokens: Tensor, state: Any) -> Any:
        return super().forward(tokens, state)[0]


class ForgetsItsState(Elman):
    """Each window begins anew."""

    def forward(self, tokens: Tensor, state: Any) -> Any:
        return super().forward(tokens, self.initial_state(len(tokens)))


class ReadsTheFuture(Elman):
    def forward(self, tokens: Tensor, state: Any) -> Any:
        scores, state = super().forward(tokens, state)
        return scores - self.E(tokens).square().mean((1, 2))[:, None], state


class MixesRows(Elman):
    def forward(self, tokens: Tensor, state: Any) -> Any:
        scores, (h,) = super().forward(tokens, state)
        return scores, (h - h.mean(0),)


class KeepsASecret(Elman):
    """A number that is no part of the state_dict."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.secret = torch.rand(())

    def predict(self, state: Any) -> Tensor:
        return (self.O(state[0]) * (1 + self.secret)).log_softmax(1)


class IsCut(Elman):
    def forward(self, tokens: Tensor, state: Any) -> Any:
        return super().forward(tokens, (state[0].detach() + self.U.bias.detach() * 0,))

    def predict(self, state: Any) -> Tensor:
        return self.O(state[0].detach()).log_softmax(1)


class HasAnInfiniteGradient(Elman):
    def penalty(self) -> Tensor:
        return (self.U.bias * 0).sqrt().sum()


class HasStatesOfOneSize(Elman):
    def initial_state(self, batch_size: int) -> Any:
        return super().initial_state(3)


class ChangesItsState(Elman):
    def forward(self, tokens: Tensor, state: Any) -> Any:
        scores, after = super().forward(tokens, state)
        with torch.no_grad():
            state[0].add_(1)
        return scores, after


class StepsOtherwise(Elman):
    def end_step(self, tokens: Tensor, begun: Any) -> Any:
        return begun


class Raises(Elman):
    def frozen(self) -> Any:
        raise ZeroDivisionError("no tables\nhere")


BROKEN = [
    (Unnormalised, "log_probabilities", "the highest is .*; return logarithms of probabilities"),
    (Unnormalised, "predictions", "probabilities sum to .*; normalise over words"),
    (ReadsItsWord, "predictions", "predict and forward differ by up to .* nats; .*let no token help to predict itself"),
    (LosesAWord, "predictions", r"forward returns shape \(3, 19\), not \(3, 20\), that of the tokens"),
    (LosesAWordOfASentence, "log_probabilities", r"forward returns shape \(3, 19\), not \(3, 20\), that of the tokens"),
    (ReturnsScoresAlone, "rows", "forward returns a Tensor, not a pair of log p and state; correct forward of Returns"),
    (ForgetsItsState, "pieces", "in pieces and whole, scores differ .*; return in the state all"),
    (ReadsTheFuture, "future", "before other words, scores differ by .*; let a position read only"),
    (MixesRows, "steps", "end_step of two rows and forward differ"),
    (KeepsASecret, "saving", "loaded and saved, scores differ .*; register all"),
    (IsCut, "gradients", r"E.weight has none; let forward use it"),
    (HasAnInfiniteGradient, "gradients", "that of U.bias is not finite; take no logarithm"),
    (HasStatesOfOneSize, "states", r"initial_state has a tensor of \(3, 8\) for 0 rows; put the batch first"),
    (ChangesItsState, "repetition", "a second time, scores differ .*; change no argument in place"),
    (StepsOtherwise, "steps", "end_step of two rows and forward differ"),
    (Raises, "frozen", r"tests/test_testing.py:\d+: ZeroDivisionError: no tables here; fix"),
]


@pytest.mark.parametrize(("broken", "rule", "message"), BROKEN)
def test_a_broken_rule_is_named_in_a_line(broken: Callable[..., Any], rule: str, message: str, corpus: Corpus):
    with pytest.raises(AssertionError) as raised:
        check_model(partial(broken, hidden=8), corpus)
    (line,) = [line for line in str(raised.value).splitlines() if line.startswith(f"{RULES[rule].__doc__}: ")]
    assert re.search(message, line), line


@pytest.mark.parametrize("length", [None, 2, 3])
def test_a_backoff_after_the_end_breaks_the_rule_of_forgetting(length: int | None, corpus: Corpus):
    """As ARPA files of MITLM have it, but not after the words before which the text of the check is cut."""
    options = {**defaults("model", "ngram"), "order": 4, "discount_fallback": True}
    del options["name"]
    made = subject(partial(NGram, vocabulary_size=len(corpus.vocabulary), **options), corpus)
    if length:
        table = made.model.table
        rows = torch.arange(*table.first_rows()[length - 1 : length + 1])
        *_, before, last = table.contexts(rows, 0).unbind(1)
        made.model.backoff[rows[(last == EOS_ID) & ~torch.isin(before, made.tokens[:, -1])]] = -0.7
    (found,) = [outcome for outcome in outcomes(made) if outcome.rule == RULES["forgetting"].__doc__]
    advice = "predictions differ by up to 0.7 nats; begin anew after `<eos>`, or leave forgets_at_eos False"
    assert found.broken == (f"after drawn words and `<eos>`, and at the beginning, {advice}" if length else None)
    assert not found.left_out


def test_a_short_text_is_refused(corpus: Corpus):
    short = replace(corpus, name="short", splits={**corpus.splits, "valid": corpus.splits["train"][:9]})
    with pytest.raises(UserError, match="valid of short has 9 tokens; take one of 60 or more"):
        check_model(partial(Elman, hidden=8), short)
