"""The training loop: how often it checks and saves, when it stops, and what it counts."""

import dataclasses
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from command_line import SMALL, configuration, train
from torch import Tensor
from torch.nn import functional as F
from toy_model import SGD, Unigram, corpus_of, trainer_of

from lmzoo.core.errors import UserError
from lmzoo.corpus import Corpus
from lmzoo.models.neural import recurrent
from lmzoo.protocol.model import State
from lmzoo.protocol.perplexity import score
from lmzoo.training import trainer as trainer_module

TOKENS = [1, 2, 3, 1, 0] * 8
"""Ten windows of four tokens."""


def test_every_epoch_ends_with_a_check_and_a_checkpoint():
    trainer = trainer_of(Unigram(4), corpus_of(TOKENS), epochs=2, checkpoint_seconds=1e9)
    trainer.fit()
    assert trainer.run.steps("last.pt") == [0, 10, 20]
    assert trainer.progress.finished


def test_checks_are_spread_over_the_epoch():
    checks = []
    trainer = trainer_of(
        Unigram(4), corpus_of(TOKENS), epochs=2, checks_per_epoch=3, checkpoint_seconds=1e9,
        observe=lambda progress, metrics: checks.append(progress.step) if "perplexity/valid" in metrics else None,
    )  # fmt: skip
    trainer.fit()
    assert checks == [3, 6, 10, 13, 16, 20]
    assert trainer.run.steps("last.pt") == [0, *checks]


def test_between_checks_the_run_is_saved_as_often_as_asked_for():
    trainer = trainer_of(Unigram(4), corpus_of(TOKENS), epochs=1, checkpoint_seconds=0)
    trainer.fit()
    assert trainer.run.steps("last.pt") == list(range(11))


def test_the_best_weights_are_kept():
    checks = []
    trainer = trainer_of(
        Unigram(4), corpus_of(TOKENS), epochs=6, optimizer=SGD | {"lr": 20.0, "momentum": 0.9},
        observe=lambda progress, metrics: checks.extend(v for tag, v in metrics.items() if tag == "perplexity/valid"),
    )  # fmt: skip
    trainer.fit()
    better = [value for index, value in enumerate(checks) if value < min(checks[:index], default=math.inf)]
    assert 1 <= len(better) < len(checks)
    kept = [checkpoint["model"] for name, checkpoint in trainer.run.saved if name == "best.pt"]
    assert len(kept) == len(better)
    model = Unigram(4)
    model.load_state_dict(kept[-1])
    assert score(model, torch.tensor(TOKENS), "stream").perplexity == min(checks)


@pytest.mark.parametrize("context", ["stream", "sentence"])
def test_tokens_are_counted_without_padding(context: str):
    counted = []
    lines = [1, 2, 0, 3, 3, 1, 0, 2, 0]
    trainer = trainer_of(
        Unigram(4), corpus_of(lines, context), epochs=2, max_tokens=12,
        observe=lambda progress, metrics: counted.append(progress.tokens) if "perplexity/valid" in metrics else None,
    )  # fmt: skip
    trainer.fit()
    assert counted == [9, 18]


def test_the_trainer_tells_the_schedule_of_every_check():
    rates = []
    trainer = trainer_of(
        Unigram(4), corpus_of([1, 2, 3, 0] * 4), epochs=5,  # the weights are the best from the start
        schedule={"name": "plateau", "factor": 0.5, "patience": 1},
        observe=lambda progress, metrics: rates.append(metrics.get("train/learning_rate")),
    )  # fmt: skip
    trainer.fit()
    epochs = [rates[5 * epoch : 5 * epoch + 5] for epoch in range(5)]  # four steps and a check
    assert epochs == [[rate] * 4 + [None] for rate in (1.0, 1.0, 1.0, 0.5, 0.5)]


def test_early_stopping_counts_checks_without_a_better_one():
    trainer = trainer_of(Unigram(4), corpus_of([1, 2, 3, 0]), epochs=50, patience=2)
    trainer.fit()
    assert trainer.progress.epoch == 3  # the first check is the best, then two that are not better
    assert trainer.progress.stale == 2
    assert trainer.progress.finished


def test_a_better_check_makes_patience_begin_again(monkeypatch: pytest.MonkeyPatch):
    perplexities = iter([9.0, 10.0, 8.0, 9.0, 9.0, 7.0])
    monkeypatch.setattr(trainer_module, "score", lambda *_: SimpleNamespace(perplexity=next(perplexities)))
    trainer = trainer_of(Unigram(4), corpus_of([1, 2, 3, 0]), epochs=50, patience=2)
    trainer.fit()
    assert (trainer.progress.epoch, trainer.progress.stale, trainer.progress.best) == (5, 2, 8.0)


def test_checks_measure_the_valid_split():
    corpus, checks = corpus_of(TOKENS), []
    corpus.splits.update(valid=torch.tensor([3, 3, 0]), test=torch.tensor([2, 0]))
    trainer = trainer_of(
        Unigram(4), corpus, epochs=1,
        observe=lambda progress, metrics: checks.extend(v for tag, v in metrics.items() if tag == "perplexity/valid"),
    )  # fmt: skip
    trainer.fit()
    assert checks == [score(trainer.model, corpus.splits["valid"], "stream").perplexity]


def sentences_of(corpus: Corpus, seed: int = 0) -> list[list[list[list[int]]]]:
    """The windows of three epochs of training on sentences."""
    model = Unigram(len(corpus.vocabulary))
    trainer = trainer_of(
        model, dataclasses.replace(corpus, context="sentence"), epochs=3, max_tokens=64, seed=seed,
    )  # fmt: skip
    trainer.fit()
    windows, epoch = model.windows, len(model.windows) // 3
    return [windows[:epoch], windows[epoch : 2 * epoch], windows[2 * epoch :]]


def test_every_epoch_groups_and_orders_sentences_anew(corpus: Corpus):
    epochs = sentences_of(corpus)
    groups = [{frozenset(map(tuple, window)) for window in epoch} for epoch in epochs]
    lengths = [[len(window[0]) for window in epoch] for epoch in epochs]
    for first, second in ((0, 1), (1, 2), (0, 2)):
        assert len(groups[first] & groups[second]) < len(groups[first]) / 2
        assert lengths[first] != lengths[second]
    assert all(length != sorted(length, reverse=True) for length in lengths)
    assert sentences_of(corpus) == epochs
    assert sentences_of(corpus, seed=1) != epochs


def test_a_gradient_that_is_not_finite_stops_before_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def poisoned(self):
        return (next(self.parameters()) * math.inf).sum()

    monkeypatch.setattr(recurrent.LSTM, "penalty", poisoned)
    with pytest.raises(UserError, match=r"the gradient is (nan|inf) at step 1; the last good checkpoint is .*last\.pt"):
        train(configuration(tmp_path / "run", *SMALL))
    saved = torch.load(tmp_path / "run" / "last.pt", weights_only=True)
    assert saved["progress"]["step"] == 0
    assert all(torch.isfinite(weight).all() for weight in saved["model"].values())


def test_a_loss_that_is_not_finite_stops_before_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    forward = recurrent.LSTM.forward

    def poisoned(self, tokens, state):
        logprobs, state = forward(self, tokens, state)
        return logprobs * math.inf, state

    monkeypatch.setattr(recurrent.LSTM, "forward", poisoned)
    with pytest.raises(UserError, match=r"the loss is inf at step 1; the last good checkpoint is .*last\.pt"):
        train(configuration(tmp_path / "run", *SMALL))


def test_weights_that_a_step_ruined_are_not_saved(tmp_path: Path):
    ruinous = ["optimizer=sgd", "optimizer.lr=1e30", "schedule=constant", "trainer.clip=null", "trainer.bptt=500"]
    with pytest.raises(UserError, match=r"validation perplexity is (nan|inf) at step 1; the last good checkpoint"):
        train(configuration(tmp_path / "run", *SMALL, *ruinous))
    saved = torch.load(tmp_path / "run" / "last.pt", weights_only=True)
    assert saved["progress"]["step"] == 0


class Doubled(Unigram):
    """Every probability is twice that of the distribution, so that the perplexity is half of the right one."""

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        logprobs, after = super().forward(tokens, state)
        return logprobs + math.log(2), after

    def predict(self, state: State) -> Tensor:
        return super().predict(state) + math.log(2)


class Leading(Unigram):
    """A word is likelier if the next one is word 1, which stands in the same window."""

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        logprobs, after = super().forward(tokens, state)
        return logprobs + 0.5 * F.pad(tokens[:, 1:] == 1, (0, 1)), after


class Shorter(Unigram):
    """The first word of a window has no score."""

    def forward(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        logprobs, after = super().forward(tokens, state)
        return logprobs[:, 1:], after


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (Doubled, "probabilities sum to 2; normalise over words, such as by log_softmax"),
        (Leading, r"predict and forward differ by up to 0\.5 nats; compute both from the same state"),
        (Shorter, r"forward returns shape \(1, 7\), not \(1, 8\), that of the tokens"),
    ],
)
def test_a_model_outside_the_package_whose_perplexity_would_be_wrong_is_refused(model: type[Unigram], problem: str):
    trainer = trainer_of(model(4), corpus_of(TOKENS), epochs=1)
    with pytest.raises(UserError, match=f"^{model.__name__}: {problem}"):
        trainer.fit()
    assert not trainer.run.saved
