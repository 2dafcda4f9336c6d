"""Optimizers and schedules: each finds the optimum of a convex problem, and each option has the effect it should."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import command
from toy_model import CONSTANT, SGD, Unigram, corpus_of, trainer_options

from lmzoo.core.errors import UserError
from lmzoo.runs.directory import Run
from lmzoo.training.descent import Descent
from lmzoo.training.optimization import optimizers, schedules

OPTIMIZERS = {
    "adam": {"lr": 0.1, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0},
    "adamw": {"lr": 0.1, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.0},
    "sgd": {"lr": 2.0, "momentum": 0.5, "weight_decay": 0.0},
    "adagrad": {"lr": 0.5, "weight_decay": 0.0},
}
SCHEDULES = {
    "constant": {"warmup": 5},
    "linear": {},
    "step": {"hold_epochs": 150, "factor": 0.9},
    "cosine": {"warmup": 5, "floor": 0.1},
    "plateau": {"factor": 0.5, "patience": 20},
}
STEPS = 200


def test_every_entry_is_in_the_table():
    assert set(OPTIMIZERS) == set(optimizers.entries)
    assert set(SCHEDULES) == set(schedules.entries)


@pytest.mark.parametrize(
    ("optimizer", "schedule"),
    [*((name, "constant") for name in OPTIMIZERS), *(("adam", name) for name in SCHEDULES if name != "constant")],
)
def test_the_optimum_of_a_convex_problem_is_found(optimizer: str, schedule: str):
    """The loss is convex in w; at its optimum perplexity is exp of the entropy of the words' shares."""
    text = [1] * 5 + [2] * 3 + [3] * 2 + [0] * 2
    options = trainer_options(bptt=len(text), epochs=STEPS)  # a step an epoch
    descent = Descent(
        Unigram(4), corpus_of(text), options, seed=0,
        optimizer={"name": optimizer, **OPTIMIZERS[optimizer]}, schedule={"name": schedule, **SCHEDULES[schedule]},
    )  # fmt: skip
    perplexity = math.inf
    for epoch in range(STEPS):
        for window in descent.windows.epoch(epoch):
            perplexity = descent.step(window)["perplexity/train"]
        descent.optimization.note_validation(perplexity)
    shares = [text.count(word) / len(text) for word in range(4)]
    assert perplexity == pytest.approx(math.exp(-sum(p * math.log(p) for p in shares)), rel=1e-5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_checkpoint_whose_steps_were_not_fused_goes_on(optimizer: str):
    """As from an earlier version, or from a device on which PyTorch cannot fuse them."""
    options: dict[str, Any] = {"optimizer": {"name": optimizer, **OPTIMIZERS[optimizer]}, "schedule": CONSTANT}
    text = corpus_of([1, 2, 3, 1, 0] * 4)
    whole, begun, resumed = (Descent(Unigram(4), text, trainer_options(), seed=0, **options) for _ in range(3))
    windows = list(whole.windows.epoch(0))
    for window in windows:
        whole.step(window)
    begun.optimization.optimizer.param_groups[0]["fused"] = False
    for window in windows[:2]:
        begun.step(window)
    resumed.model.load_state_dict(begun.model.state_dict())
    resumed.load_state_dict(begun.state_dict())
    for window in windows[2:]:
        resumed.step(window)
    assert resumed.optimization.optimizer.param_groups[0]["fused"] is True
    torch.testing.assert_close(resumed.model.state_dict(), whole.model.state_dict())


class TwoRates(torch.optim.Optimizer):
    """Plain descent, all parameters but the first having half the rate."""

    def __init__(self, parameters: Sequence[torch.nn.Parameter], lr: float):
        first, *others = parameters
        super().__init__([{"params": [first]}, {"params": others, "lr": lr / 2}], {"lr": lr})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        for group in self.param_groups:
            for parameter in group["params"]:
                steps = self.state[parameter].setdefault("steps", torch.zeros(()))
                steps += 1
                if parameter.grad is not None:
                    parameter -= group["lr"] / steps * parameter.grad


class Shifted(Unigram):
    """p(x_t) = softmax(w + v)."""

    def __init__(self, vocabulary_size: int):
        super().__init__(vocabulary_size)
        self.v = torch.nn.Parameter(torch.zeros(vocabulary_size))

    def forward(self, tokens: torch.Tensor, state: Any) -> Any:
        _, state = super().forward(tokens, state)
        return (self.w + self.v).log_softmax(0)[tokens], state


@pytest.mark.parametrize("random_bptt", [False, True])
def test_an_optimizer_of_one_s_own_with_two_groups_trains_and_goes_on(
    random_bptt: bool, monkeypatch: pytest.MonkeyPatch
):
    """All that is known of it is what `torch.optim.Optimizer` promises: groups with rates, and a state."""

    def own(parameters: Sequence[torch.nn.Parameter], *, lr: float) -> torch.optim.Optimizer:
        return TwoRates(parameters, lr)

    monkeypatch.setitem(optimizers.entries, "own", own)
    monkeypatch.setitem(optimizers.presets, "own", {})
    options: dict[str, Any] = {
        "optimizer": {"name": "own", "lr": 1.0}, "schedule": {"name": "step", "hold_epochs": 1, "factor": 0.5},
    }  # fmt: skip
    text, chosen = corpus_of([1, 2, 3, 1, 0] * 4), trainer_options(random_bptt=random_bptt, epochs=2)
    whole, begun, resumed = (Descent(Shifted(4), text, chosen, seed=0, **options) for _ in range(3))
    windows = [window for epoch in range(2) for window in whole.windows.epoch(epoch)]
    w, v = torch.zeros(4), torch.zeros(4)
    for number, window in enumerate(windows, 1):
        shares = window.tokens.flatten().bincount(minlength=4) / window.tokens.numel()
        gradient = (w + v).softmax(0) - shares
        rate = (1.0 if number <= len(windows) // 2 else 0.5) / number
        rate *= window.tokens.shape[1] / 4 if random_bptt else 1
        w, v = w - rate * gradient, v - rate / 2 * gradient
        assert whole.step(window)["train/learning_rate"] == (1.0 if number <= len(windows) // 2 else 0.5)
    torch.testing.assert_close(whole.model.state_dict(), {"w": w, "v": v})
    for window in windows[:3]:
        begun.step(window)
    resumed.model.load_state_dict(begun.model.state_dict())
    resumed.load_state_dict(begun.state_dict())
    for window in windows[3:]:
        resumed.step(window)
    torch.testing.assert_close(resumed.model.state_dict(), whole.model.state_dict(), rtol=0, atol=0)


def steps_of(name: str, gradients: Sequence[float], start: float, **options: float) -> list[float]:
    """A single weight after each of some steps."""
    weight = torch.nn.Parameter(torch.tensor([start], dtype=torch.float64))
    optimizer = optimizers.build({"name": name, **OPTIMIZERS[name], **options}, parameters=[weight])
    found = []
    for gradient in gradients:
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        found.append(weight.item())
    return found


GRADIENTS, START = [0.5, -2.0, 1.0], -4.0


@pytest.mark.parametrize("option", [{}, {"lr": 0.3}, {"beta1": 0.5}, {"beta2": 0.5}, {"weight_decay": 0.25}])
@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_by_hand(name: str, option: Mapping[str, float]):
    """Kingma & Ba (2015), algorithm 1; weight decay is in the gradient for Adam, beside it for AdamW."""
    options = OPTIMIZERS[name] | option
    lr, beta1, beta2, decay = (options[key] for key in ("lr", "beta1", "beta2", "weight_decay"))
    w, m, v, expected = START, 0.0, 0.0, []
    for t, g in enumerate(GRADIENTS, 1):
        if name == "adam":
            g += decay * w
        else:
            w -= lr * decay * w
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        w -= lr * (m / (1 - beta1**t)) / (math.sqrt(v / (1 - beta2**t)) + 1e-8)
        expected.append(w)
    assert steps_of(name, GRADIENTS, START, **option) == pytest.approx(expected, rel=1e-12)
    if option:
        assert expected != pytest.approx(steps_of(name, GRADIENTS, START), rel=1e-3)


@pytest.mark.parametrize("option", [{"momentum": 0.0}, {"momentum": 0.75}, {"lr": 0.3}, {"weight_decay": 0.25}])
def test_sgd_by_hand(option: Mapping[str, float]):
    """Polyak's momentum: b ← μ b + g, w ← w - η b, weight decay in the gradient."""
    options = OPTIMIZERS["sgd"] | option
    w, b, expected = START, 0.0, []
    for g in GRADIENTS:
        b = options["momentum"] * b + g + options["weight_decay"] * w
        w -= options["lr"] * b
        expected.append(w)
    assert steps_of("sgd", GRADIENTS, START, **option) == pytest.approx(expected, rel=1e-12)
    assert expected != pytest.approx(steps_of("sgd", GRADIENTS, START), rel=1e-3)


@pytest.mark.parametrize("option", [{}, {"lr": 0.3}, {"weight_decay": 0.25}])
def test_adagrad_by_hand(option: Mapping[str, float]):
    """Duchi, Hazan & Singer (2011): the rate is divided by the root of the sum of squared gradients."""
    options = OPTIMIZERS["adagrad"] | option
    w, squares, expected = START, 0.0, []
    for g in GRADIENTS:
        g += options["weight_decay"] * w
        squares += g**2
        w -= options["lr"] * g / (math.sqrt(squares) + 1e-10)
        expected.append(w)
    assert steps_of("adagrad", GRADIENTS, START, **option) == pytest.approx(expected, rel=1e-12)
    if option:
        assert expected != pytest.approx(steps_of("adagrad", GRADIENTS, START), rel=1e-3)


def rates(schedule: Mapping[str, Any], after: Sequence[float | None] = (None,) * 12) -> list[float]:
    """The rates of the steps of four epochs of three, from an optimizer's rate of 2.

    Args:
        after: what each step is followed by: the perplexity that `plateau` is given, nothing for the others.
    """
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = optimizers.build({**SGD, "lr": 2.0}, parameters=[weight])
    plan = schedules.build(schedule, optimizer=optimizer, steps_per_epoch=3, steps=12)
    seen = []
    for value in after:
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        plan.step(*([] if value is None else [value]))
    return seen


def test_the_constant_rate_grows_to_its_height():
    assert rates(CONSTANT) == [2.0] * 12
    assert rates({"name": "constant", "warmup": 3}) == [0.5, 1.0, 1.5] + [2.0] * 9


def test_the_line_falls_to_0():
    assert rates({"name": "linear"}) == pytest.approx([2 - step / 6 for step in range(12)])


def test_steps_begin_after_the_epochs_that_hold():
    assert rates({"name": "step", "hold_epochs": 2, "factor": 0.5}) == [2.0] * 6 + [1.0] * 3 + [0.5] * 3
    assert rates({"name": "step", "hold_epochs": 1, "factor": 0.1}) == pytest.approx(
        [2.0] * 3 + [0.2] * 3 + [0.02] * 3 + [0.002] * 3
    )
    assert rates({"name": "step", "hold_epochs": 4, "factor": 0.5}) == [2.0] * 12


def test_the_cosine_falls_from_the_end_of_its_warmup_to_its_floor():
    whole = [1 + math.cos(math.pi * step / 12) for step in range(12)]
    assert rates({"name": "cosine", "warmup": 0, "floor": 0.0}) == pytest.approx(whole)
    half = [1 + value / 2 for value in whole]  # between 2 and half of it
    assert rates({"name": "cosine", "warmup": 0, "floor": 0.5}) == pytest.approx(half)
    late = [0.4, 0.8, 1.2, 1.6, *(1 + math.cos(math.pi * step / 8) for step in range(8))]
    assert rates({"name": "cosine", "warmup": 4, "floor": 0.0}) == pytest.approx(late)


@pytest.mark.parametrize(
    ("factor", "patience", "values", "expected"),
    [
        (0.5, 0, [9.0, 8.0, 8.5, 7.0, 7.5, 7.2], [2.0, 2.0, 2.0, 1.0, 1.0, 0.5]),
        (0.25, 0, [9.0, 9.5, 9.4], [2.0, 2.0, 0.5]),
        (0.5, 1, [9.0, 9.5, 9.4, 9.3, 9.2, 9.1], [2.0, 2.0, 2.0, 1.0, 1.0, 0.5]),
        (0.5, 1, [9.0, 9.5, 8.0, 9.5, 9.5, 9.5], [2.0] * 5 + [1.0]),
        (0.5, 0, [9.0, 9.0, 9.0], [2.0, 2.0, 1.0]),
        (0.5, 0, [9.0, 9.0 - 1e-12, 9.0 - 2e-12], [2.0, 2.0, 2.0]),
    ],
    ids=["factor", "another factor", "patience", "better ones in between", "equal is stale", "hardly better is better"],
)
def test_the_rate_falls_where_validation_has_stalled(
    factor: float, patience: int, values: list[float], expected: list[float]
):
    assert rates({"name": "plateau", "factor": factor, "patience": patience}, values) == expected


@pytest.mark.parametrize(
    "choice", [*(f"optimizer={name}" for name in OPTIMIZERS), *(f"schedule={name}" for name in SCHEDULES)]
)
def test_every_default_trains(choice: str, folder: Path):
    """An LSTM with all defaults, for one epoch: better than the share of each word."""
    text = ["corpus=markov", "corpus.words=150", "corpus.train=20000", "corpus.valid=2000", "corpus.test=100"]
    sizes = ["model.hidden=50", "trainer.epochs=2", "device=cpu", "run_dir=run"]
    assert command(*text, *sizes, choice).code == 0
    results = json.loads(Path("run/results.json").read_text())
    assert results["perplexity"]["valid"] < 100


class RateOfAnotherName(torch.optim.Optimizer):
    def __init__(self, parameters: Sequence[torch.nn.Parameter]):
        super().__init__(parameters, {"rate": 0.1})


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda parameters: None, "makes no torch.optim.Optimizer"),
        (torch.optim.LBFGS, r"step\(\) needs a closure"),
        (RateOfAnotherName, "a group of parameters has no lr"),
    ],
)
def test_an_optimizer_of_one_s_own_that_cannot_be_used_is_refused(
    build: Callable[[Any], Any], problem: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(optimizers.entries, "own", lambda *, parameters: build(parameters))
    with pytest.raises(UserError, match=f"optimizer=own: {problem}"):
        Descent(Unigram(4), corpus_of([1, 2, 3] * 4), trainer_options(), seed=0, optimizer={"name": "own"},
                schedule=CONSTANT)  # fmt: skip


def test_a_schedule_of_one_s_own_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(schedules.entries, "own", lambda *, optimizer, steps_per_epoch, steps: None)
    with pytest.raises(UserError, match="schedule=own: makes no LRScheduler of torch"):
        Descent(Unigram(4), corpus_of([1, 2, 3] * 4), trainer_options(), seed=0, optimizer=SGD,
                schedule={"name": "own"})  # fmt: skip


@pytest.mark.parametrize("value", [object(), np.float64(1), len, torch.eye(3).to_sparse()])
def test_a_state_that_could_not_be_read_again_is_refused_as_it_is_saved(value: Any, tmp_path: Path):
    run = Run(tmp_path)
    with pytest.raises(UserError, match=r"a checkpoint cannot contain a .*; let state_dict return"):
        run.save("last.pt", {"optimizer": {"state": [value]}})
    assert not run.names()
