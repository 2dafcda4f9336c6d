"""One step of gradient descent, computed by hand."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_model import CONSTANT, SGD, Unigram, corpus_of, trainer_options

from lmzoo.corpus import Corpus
from lmzoo.corpus.windows import Window
from lmzoo.training.descent import Descent
from lmzoo.training.optimization import NotFinite

LINES = [1, 2, 0, 3, 3, 1, 0, 2, 0]
"""Three sentences of 3, 4 and 2 tokens."""


def descent_of(model: Unigram, corpus: Corpus, **changed: Any) -> Descent:
    groups = {"optimizer": SGD, "schedule": CONSTANT} | {
        name: changed.pop(name) for name in ("optimizer", "schedule") if name in changed
    }
    return Descent(model, corpus, trainer_options(**changed), seed=0, **groups)


def gradient(tokens: list[int], words: int = 4) -> Tensor:
    """∂/∂w of minus the mean log-probability of some tokens at w = 0: p minus the tokens' shares."""
    return torch.full((words,), 1 / words) - torch.tensor(tokens).bincount(minlength=words) / len(tokens)


def test_a_step_follows_the_gradient_of_the_mean_loss():
    model = Unigram(4)
    descent = descent_of(model, corpus_of([1, 1, 2, 0]))
    metrics = descent.step(next(descent.windows.epoch(0)))
    torch.testing.assert_close(model.w.detach(), -gradient([1, 1, 2, 0]))
    assert metrics == {
        "perplexity/train": pytest.approx(4),
        "train/learning_rate": 1.0,
        "train/gradient_norm": pytest.approx(float(gradient([1, 1, 2, 0]).norm())),
    }


@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_the_text_that_is_learnt_from_is_that_for_training(context: str):
    corpus = corpus_of([1, 1, 2, 0], context)
    corpus.splits.update(valid=torch.tensor([3, 3, 3, 0]), test=torch.tensor([3, 2, 3, 0]))
    (window,) = descent_of(Unigram(4), corpus).windows.epoch(0)
    assert window.tokens.tolist() == [[1, 1, 2, 0]]


def test_every_step_follows_its_own_gradient():
    model, w = Unigram(4), torch.zeros(4)
    descent = descent_of(model, corpus_of([1, 1, 2, 0]), optimizer=SGD | {"lr": 0.5})
    for epoch in range(3):
        descent.step(next(descent.windows.epoch(epoch)))
        w = w - 0.5 * (w.softmax(0) - torch.tensor([1, 2, 1, 0]) / 4)
    torch.testing.assert_close(model.w.detach(), w)


def test_the_rate_follows_its_schedule_through_all_epochs():
    schedule = {"name": "cosine", "warmup": 1, "floor": 0.0}
    descent = descent_of(Unigram(4), corpus_of([1, 2, 3, 0] * 2), epochs=3, schedule=schedule)
    windows = [window for epoch in range(3) for window in descent.windows.epoch(epoch)]
    rates = [descent.step(window)["train/learning_rate"] for window in windows]
    assert rates == pytest.approx([0.5, *((1 + math.cos(math.pi * step / 5)) / 2 for step in range(5))])


def test_padding_has_no_part_in_the_loss():
    model = Unigram(4)
    descent = descent_of(model, corpus_of(LINES, "sentence"), max_tokens=12)
    (window,) = descent.windows.epoch(0)
    assert window.tokens.shape == (3, 4)
    metrics = descent.step(window)
    torch.testing.assert_close(model.w.detach(), -gradient(LINES))
    assert metrics["train/gradient_norm"] == pytest.approx(float(gradient(LINES).norm()))


@pytest.mark.parametrize(("clip", "length"), [(0.25, 0.25), (100.0, None), (None, None)])
def test_a_gradient_longer_than_the_limit_is_shortened_to_it(clip: float | None, length: float | None):
    model, whole = Unigram(4), gradient([1, 1, 1, 1])
    descent = descent_of(model, corpus_of([1, 1, 1, 1]), clip=clip)
    metrics = descent.step(next(descent.windows.epoch(0)))
    expected = whole if length is None else whole * length / whole.norm()
    torch.testing.assert_close(model.w.detach(), -expected, atol=1e-5, rtol=1e-5)
    assert metrics["train/gradient_norm"] == pytest.approx(float(whole.norm()))  # as it was before


def test_a_step_that_fails_leaves_the_rate_as_it_was(monkeypatch: pytest.MonkeyPatch):
    descent = descent_of(Unigram(4), corpus_of([1, 2, 3, 0] * 9), batch_size=1, bptt=9, random_bptt=True)
    (group,) = descent.optimization.optimizer.param_groups
    rates = []

    def fail() -> None:
        rates.append(group["lr"])
        raise KeyboardInterrupt

    monkeypatch.setattr(descent.optimization.optimizer, "step", fail)
    window = next(descent.windows.epoch(0))
    with pytest.raises(KeyboardInterrupt):
        descent.step(window)
    assert rates == [pytest.approx(window.tokens.shape[1] / 9)]
    assert rates[0] != 1
    assert group["lr"] == 1


def test_the_state_is_carried_from_window_to_window_and_begins_anew_with_the_text():
    model = Unigram(4)
    descent = descent_of(model, corpus_of([1, 2, 3] * 6 + [0, 0]), batch_size=2, bptt=4)
    for epoch in range(2):
        for window in descent.windows.epoch(epoch):
            descent.step(window)
            assert not any(part.requires_grad for part in descent.state)
    assert model.states == [[0, 0], [4, 4], [8, 8]] * 2


def test_every_window_of_sentences_begins_at_the_initial_state():
    model = Unigram(4)
    descent = descent_of(model, corpus_of(LINES, "sentence"), max_tokens=4)
    for window in descent.windows.epoch(0):
        descent.step(window)
    assert model.states == [[0]] * 3


@pytest.mark.parametrize(("precision", "dtype"), [("bfloat16", torch.bfloat16), ("float32", torch.float32)])
def test_the_model_computes_in_the_precision_asked_for(precision: str, dtype: torch.dtype):
    model = Unigram(4)
    descent = descent_of(model, corpus_of([1, 1, 2, 0]), precision=precision)
    descent.step(next(descent.windows.epoch(0)))
    assert model.precisions == [dtype]
    assert model.w.dtype == torch.float32


def test_the_penalty_is_part_of_the_gradient_and_not_of_perplexity(monkeypatch: pytest.MonkeyPatch):
    model = Unigram(4)
    monkeypatch.setattr(model, "penalty", lambda: 3 * model.w[0])
    descent = descent_of(model, corpus_of([1, 1, 2, 0]))
    metrics = descent.step(next(descent.windows.epoch(0)))
    torch.testing.assert_close(model.w.detach(), -gradient([1, 1, 2, 0]) - torch.tensor([3.0, 0, 0, 0]))
    assert metrics["perplexity/train"] == pytest.approx(4)


@pytest.mark.parametrize("factor", [math.inf, math.nan])
def test_a_loss_that_is_not_finite_changes_no_weight(factor: float, monkeypatch: pytest.MonkeyPatch):
    model, forward = Unigram(4), Unigram.forward

    def poisoned(self: Unigram, tokens: Tensor, state: tuple) -> tuple:
        logprobs, state = forward(self, tokens, state)
        return logprobs * factor, state

    monkeypatch.setattr(Unigram, "forward", poisoned)
    with pytest.raises(NotFinite, match=r"the loss is (inf|nan)"):
        descent_of(model, corpus_of([1, 0])).step(Window(torch.tensor([[1, 0]]), None, torch.tensor([[0, 1]]), True))
    assert torch.equal(model.w, torch.zeros(4))


def test_a_gradient_that_is_not_finite_changes_no_weight(monkeypatch: pytest.MonkeyPatch):
    model = Unigram(4)
    monkeypatch.setattr(model, "penalty", lambda: (model.w * math.inf).sum())
    with pytest.raises(NotFinite, match=r"the gradient is (inf|nan)"):
        descent_of(model, corpus_of([1, 0])).step(Window(torch.tensor([[1, 0]]), None, torch.tensor([[0, 1]]), True))
    assert torch.equal(model.w, torch.zeros(4))
